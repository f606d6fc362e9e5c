(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Rules taken out, one at a time: each time a run of a few steps breaks the promise, so no rule of the proof
   is idle. (The same names as docs/model/README.md, Wrong variants.) *)
From Coq Require Import Arith List Bool.
From Shift Require Import Dir.
Import ListNotations.

Definition k n := if Nat.even n then Wr else Two.   (* WRITE SEND WRITE SEND ... *)
Definition a (n : nat) := At.

Inductive wlabel := L (l : label) | HearAny (c : nat) | SettleDeaf | FinalEarly | SettleAtomic.
Definition wstep kd (s : st) (w : wlabel) : option st :=
  match w with
  | L l => step kd s l
  | HearAny c => (* answer-of-any-epoch *)
      if existsb (fun m => snd m =? c) (msgs s)
      then Some (St (posted s) (done s) (act s) (sep s) (moving s) (Some c) (quiet s) (rep s) (rerr s) (gone s)
                    (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s) (car s)) else None
  | SettleDeaf => (* resubmit-before-answer: as if nothing had arrived *)
      step kd (St (posted s) (done s) (act s) (sep s) (moving s) (Some (rank kd (done s))) (quiet s) (rep s) (rerr s)
                  (gone s) (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s) (car s)) Settle
  | FinalEarly => (* count-before-quiesce *)
      let c := car s (rep s) in
      Some (St (posted s) (done s) (act s) (sep s) (moving s) (heard s) (quiet s) (rep s) (rerr s) (gone s) (rsick s)
               true (log s) (wrs s) (ats s) ((rep s, length (log s)) :: msgs s)
               (upd (car s) (rep s) (Car (lo c) (nb c) (hi c) (ex c) (ak c) (length (log s)) (torn c))))
  | SettleAtomic => (* atomic-again: the check is left out, all else as it is *)
      step (fun n => match kd n with At => Wr | x => x end) s Settle
  end.
Fixpoint wrun kd ls s := match ls with [] => Some s | l :: ls =>
  match wstep kd s l with Some s' => wrun kd ls s' | None => None end end.
Definition see {A} (f : st -> A) kd ls := option_map f (wrun kd ls init).
Definition ok := [L Post; L Post; L Ring; L (Exec 0); L (Exec 0)].

(* SEND 1 is received twice: in receives 0 and 0 (its place in the new ring), or 0 and 1. *)
Example resubmit_before_answer :
  see log k (ok ++ [L (Leave 1); L (RLeave 1); L RQuiesce; L Final; SettleDeaf; L (Exec 1); L (Exec 1)])
  = Some [(1, 0); (1, 1)].
Proof. vm_compute. reflexivity. Qed.

Example count_before_quiesce :
  see log k ([L Post; L Post; L Ring; L (Leave 1); L (RLeave 1); FinalEarly; L (Hear 0); L Settle;
              L (Exec 0); L (Exec 0); L (Exec 1); L (Exec 1)]) = Some [(1, 0); (1, 0)].
Proof. vm_compute. reflexivity. Qed.

Example answer_of_any_epoch :
  see log k ([L Post; L Post; L Ring; L (Leave 1); L (RLeave 1); L RQuiesce; L Final; L (Hear 0); L Settle;
              L (Exec 1); L (Exec 1); L (Leave 2); HearAny 0; L Settle; L (RLeave 2); L RQuiesce; L Final;
              L (Exec 2); L (Exec 2)]) = Some [(1, 0); (1, 1)].
Proof. vm_compute. reflexivity. Qed.

Example atomic_again :
  see ats a ([L Post; L Ring; L (Exec 0); L (Leave 1); L (RLeave 1); L RQuiesce; L Final; L (Hear 0); SettleAtomic;
              L (Exec 1)]) = Some [0; 0].
Proof. vm_compute. reflexivity. Qed.

(* With the rules in place none of these can be said: each run stops at the step that is not allowed. *)
Example rules_hold :
  run k [Post; Post; Ring; Exec 0; Exec 0; Leave 1; RLeave 1; Final] init = None /\
  run a [Post; Ring; Exec 0; Leave 1; RLeave 1; RQuiesce; Final; Hear 0; Settle] init = None.
Proof. split; vm_compute; reflexivity. Qed.
