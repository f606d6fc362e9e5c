(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Rules taken out, one at a time: each time a run of a few steps breaks the promise, so no rule of the proof is
   idle. The names are those of docs/model (tests/model/run_model.py --list); the variants that break P7 alone are
   spin's, as nothing here says that a run comes to an end. *)
From Coq Require Import Arith List Bool.
From Shift Require Import Dir Promises.
Import ListNotations.

Definition set_heard (s : st) m :=
  sends s (posted s) (done s) (seen s) (act s) (sep s) (moving s) (doubt s) m (quiet s).
(* STATE with this word, whatever else; receives lie from this one on. *)
Definition say s m from :=
  let c := car s (rep s) in
  happens (receives s (rep s) (rerr s) (gone s) (rep s) (dead m) (cut m) true (well s) ((rep s, m) :: msgs s))
    (log s) (wrs s) (ats s) (exd s) (got s)
    (upd (car s) (rep s) (Car (lo c) (nb c) (hi c) (ex c) (una c) (pl c) (cp c) from (again c))).
Definition set_again s n l :=
  let c := car s (act s) in
  set_car s (act s) (Car (lo c) (nb c) (hi c) n n (pl c) (cp c) (head c) l).

Inductive wrong :=
| L (l : label)
| HearAny (m : word)            (* answer-of-any-epoch *)
| SettleDeaf                    (* resubmit-before-answer *)
| Say (m : word) (from : nat)   (* a count before its time, or untrue; receives laid elsewhere *)
| SettleAtomic                  (* atomic-again *)
| SettleAgain (n : nat) (l : list nat) (* from n on, other requests run again among the delivered *)
| Stray (n : nat).              (* same-qpn: request n, of an old carrier, passes for the one that is expected *)

Definition wstep kd (s : st) (w : wrong) : option st :=
  match w with
  | L l => step kd no_fence s l
  | HearAny m => if existsb (fun x => count (snd x) =? count m) (msgs s) then Some (set_heard s (Some m)) else None
  | SettleDeaf => step kd no_fence (set_heard s (Some (Word (rank kd (done s)) 0 0))) (Settle false 0)
  | Say m from => Some (say s m from)
  | SettleAtomic => step (fun n => match kd n with At => Wr | x => x end) no_fence s (Settle false 0)
  | SettleAgain n l => option_map (fun t => set_again t n l) (step kd no_fence s (Settle false 0))
  | Stray n =>
      let c := car s (act s) in
      Some (happens s (log s ++ [(n, head c)]) (wrs s) (ats s) (n :: exd s) (got s)
              (upd (car s) (act s) (Car (lo c) (nb c) (hi c) (S (ex c)) (una c) (pl c) (cp c) (S (head c)) (again c))))
  end.
Fixpoint wrun kd ls s := match ls with [] => Some s | l :: ls =>
  match wstep kd s l with Some s' => wrun kd ls s' | None => None end end.
Definition see {A} (f : st -> A) kd ls := option_map f (wrun kd ls init).

(* n requests are posted and rung; k arrive on carrier e, with all that follows. *)
Definition ring n := map L (times n Post ++ times n Ring).
Definition arrive e k := map L (times k (Exec e) ++ times k (Place e) ++ times k (Comp e)).
Definition leave e := map L [Leave e; RLeave e].
Definition counted c := map L [RQuiesce; Seal false false; Final; Hear (Word c 0 0)].
Definition two (n : nat) := Two.
Definition atomic (n : nat) := At.
Definition read_send n := if Nat.even n then Rd else Two.

(* The rules in place: WRITE, SEND; the SEND arrived and is not repeated. *)
Example rules_hold : see log ws (ring 2 ++ arrive 0 2 ++ leave 1 ++ counted 1 ++ [L (Settle false 0)])
  = Some [(1, 0)].
Proof. vm_compute. reflexivity. Qed.

(* P2: a SEND is received twice, or in the wrong receive. *)
Example resubmit_before_answer :
  see log two (ring 1 ++ arrive 0 1 ++ leave 1 ++ counted 1 ++ [SettleDeaf] ++ arrive 1 1) = Some [(0, 0); (0, 1)].
Proof. vm_compute. reflexivity. Qed.
Example count_before_quiesce :
  see (fun s => map fst (log s)) two (ring 1 ++ leave 1 ++ [Say (Word 0 0 0) 0; L (Hear (Word 0 0 0))] ++
    map L [Exec 0] ++ [L (Settle false 0); L (Exec 1)] ) = Some [] /\
  see exd two (ring 1 ++ leave 1 ++ [Say (Word 0 0 0) 0; L (Hear (Word 0 0 0))] ++
    map L [Exec 0] ++ [L (Settle false 0); L (Exec 1)]) = Some [0; 0].
Proof. split; vm_compute; reflexivity. Qed.
(* The same of a NIC that hangs: counted while packets are on their way; and while the peer has not stopped. *)
Example no_lifetime :
  see exd two (ring 1 ++ [L (RHang 0)] ++ leave 1 ++ [L Quiesce; L RQuiesce; Say (Word 0 1 0) 0; L (Hear (Word 0 1 0));
    L (Exec 0); L (Settle true 0); L (Exec 1)]) = Some [0; 0].
Proof. vm_compute. reflexivity. Qed.
Example no_peer_quiesce :
  see exd two (ring 1 ++ [L (RHang 0); L (RLeave 1); L RQuiesce; Say (Word 0 1 0) 0; L (Exec 0); L (Leave 1);
    L (Hear (Word 0 1 0)); L (Settle true 0); L (Exec 1)]) = Some [0; 0].
Proof. vm_compute. reflexivity. Qed.
Example answer_of_any_epoch :
  see log two (ring 1 ++ leave 1 ++ counted 0 ++ [L (Settle false 0)] ++ arrive 1 1 ++ [L (Leave 2);
    HearAny (Word 0 0 0); L (Settle false 0); L (RLeave 2); L RQuiesce; L (Seal false false); L Final] ++ arrive 2 1)
  = Some [(0, 0); (0, 1)].
Proof. vm_compute. reflexivity. Qed.
(* The count of epoch 1 is lost on its way, and that of epoch 2 begins anew. *)
Example count_per_carrier :
  see log two (ring 1 ++ arrive 0 1 ++ leave 1 ++ map L [RQuiesce; Seal false false; Final] ++ leave 2 ++
    [L RQuiesce; Say (Word 0 0 0) 1; L (Hear (Word 0 0 0)); L (Settle false 0)] ++ arrive 2 1) = Some [(0, 0); (0, 1)].
Proof. vm_compute. reflexivity. Qed.
Example receives_late :
  see log two (ring 2 ++ arrive 0 1 ++ leave 1 ++ [L RQuiesce; Say (Word 1 0 0) 0; L (Hear (Word 1 0 0));
    L (Settle false 0)] ++ map L [Exec 1; Place 1; Comp 1]) = Some [(0, 0); (1, 0)].
Proof. vm_compute. reflexivity. Qed.
Example old_receives_left :
  see log two (ring 2 ++ arrive 0 1 ++ leave 1 ++ [L RQuiesce; Say (Word 1 0 0) 2; L (Hear (Word 1 0 0));
    L (Settle false 0)] ++ map L [Exec 1; Place 1; Comp 1]) = Some [(0, 0); (1, 2)].
Proof. vm_compute. reflexivity. Qed.
Example same_qpn :
  see log two (ring 2 ++ arrive 0 1 ++ leave 1 ++ counted 1 ++ [L (Settle false 0); Stray 0])
  = Some [(0, 0); (0, 1)].
Proof. vm_compute. reflexivity. Qed.

(* P3: the SEND is received, the WRITE before it is not in memory. *)
Example acknowledged_is_placed :
  see (fun s => (log s, wrs s)) ws (ring 1 ++ map L [Exec 0; Answer; Ack; See; RLose 0] ++ leave 1 ++
    [Say (Word 0 0 0) 0; L (Hear (Word 0 0 0)); L (Settle false 0); L Post; L Ring; L (Exec 1); L (Place 1); L (Comp 1)])
  = Some ([(1, 0)], []).
Proof. vm_compute. reflexivity. Qed.

(* P4 *)
Example atomic_again :
  see ats atomic (ring 1 ++ arrive 0 1 ++ leave 1 ++ counted 0 ++ [SettleAtomic; L (Exec 1)]) = Some [0; 0].
Proof. vm_compute. reflexivity. Qed.

(* P5: a WRITE is executed behind the receive of the SEND behind it. *)
Example delivered_write_again :
  see (fun s => (log s, exd s)) ws (ring 2 ++ arrive 0 2 ++ leave 1 ++ counted 1 ++ [SettleAgain 0 [0]; L (Exec 1)])
  = Some ([(1, 0)], [0; 1; 0]).
Proof. vm_compute. reflexivity. Qed.

(* P1: a READ completes without its data. *)
Example delivered_read_nop :
  see (fun s => (done s, got s)) read_send (ring 2 ++ map L [Exec 0; Place 0; Exec 0; Place 0; Comp 0; Comp 0] ++
    leave 1 ++ counted 1 ++ [SettleAgain 0 []; L Skip; L Skip; L Answer; L Ack]) = Some (1, []).
Proof. vm_compute. reflexivity. Qed.
