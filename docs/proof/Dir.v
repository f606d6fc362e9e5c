(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* One direction of one protected connection: sender S, receiver R, any number of carriers (epochs), requests,
   faults, late packets, and messages that are lost, doubled or reordered.

   An executable transition function; the invariant (Invariant.v) holds for every list of labels. Rules:
   docs/design.md, shiftlib/core/move.c and settle.c, docs/model/shift.pml. Where the core is stricter the model
   is looser (more behaviours), so that safety carries over.

   A NIC executes a request, which it acknowledges then; somewhat later its bytes are in memory; later still there
   is a receive completion. Both go the same way in order (PCIe), so that on each carrier three indices say it
   all: cp (completed) <= pl (placed) <= ex (executed). A NIC that dies keeps its indices where they are: it has
   lost what it acknowledged behind them. *)
From Coq Require Import Arith List Bool.
Import ListNotations.

(* Lc: local, a NOP to the peer. *)
Inductive kind := Two | Wr | Rd | At | Lc.
Inductive health := Well | Sick | Lost. (* Sick: obeys nobody, may execute still. Lost: executes nothing more *)

Section Dir.
Variable kind_of : nat -> kind.
Variable fenced : nat -> bool. (* IBV_SEND_FENCE *)

Definition is_two n := match kind_of n with Two => true | _ => false end.
Definition is_wr n := match kind_of n with Wr => true | _ => false end.
Definition is_rd n := match kind_of n with Rd => true | _ => false end.
Definition is_at n := match kind_of n with At => true | _ => false end.
Definition is_lc n := match kind_of n with Lc => true | _ => false end.

Definition b2n (b : bool) := if b then 1 else 0.
(* How many of the requests 0..n-1 are two-sided; and which. *)
Fixpoint rank n := match n with 0 => 0 | S m => rank m + b2n (is_two m) end.
Fixpoint twos n : list nat :=
  match n with 0 => [] | S m => twos m ++ (if is_two m then [m] else []) end.

Definition upto a b := seq a (b - a).
Definition mem n l := existsb (Nat.eqb n) l.

Record carrier := Car {
  lo : nat;       (* the first request that was laid into it *)
  nb : nat;       (* requests below are delivered: NOPs, but for those of again *)
  hi : nat;       (* rung up to here *)
  ex : nat;       (* the responder expects this one *)
  una : nat;      (* acknowledged up to here, READs with their data *)
  pl : nat;       (* what was executed is in memory up to here *)
  cp : nat;       (* receives have completed up to here *)
  head : nat;     (* next receive in its ring *)
  again : list nat (* delivered READs without data *)
}.
Definition empty := Car 0 0 0 0 0 0 0 0 [].

(* A final count, as STATE tells it. *)
Record word := Word {
  count : nat; (* receives that have completed, over all carriers *)
  dead : nat;  (* carriers below were counted on a NIC that is sick or gone *)
  cut : nat    (* ... that could not write what it had acknowledged, for all that is known *)
}.

Record st := St {
  (* S *)
  posted : nat; done : nat; (* complete to the engine *)
  seen : nat;               (* complete to the application *)
  act : nat;                (* the carrier that requests are in *)
  sep : nat;                (* the epoch: act, or the one to come *)
  moving : bool;
  doubt : bool;             (* a WRITE that was seen complete may be missing: only WRITEs may run *)
  heard : option word;
  quiet : list nat;         (* epochs for which S has said: my older QPs are in ERR *)
  (* R *)
  rep : nat; rerr : nat;    (* its epoch; its QPs of carriers below were put to ERR *)
  gone : nat;               (* packets of carriers below have left the network *)
  seal : nat;               (* what carriers below still complete is dropped *)
  rdead : nat; rcut : nat;  (* what it says of carriers below *)
  fin : bool;               (* the count for rep is final *)
  well : nat -> health;     (* of the NIC under each carrier, until it is sealed *)
  msgs : list (nat * word); (* STATE{epoch, final count} that it has ever sent *)
  (* what has happened *)
  log : list (nat * nat);   (* completed receives: request, receive *)
  wrs : list nat;           (* WRITEs in memory, the last one first *)
  ats : list nat; exd : list nat; (* executed atomics; executed requests *)
  got : list nat;           (* READs whose data has come *)
  car : nat -> carrier
}.

Definition init : st :=
  St 0 0 0 0 0 false false None [] 0 0 0 0 0 0 false (fun _ => Well) [] [] [] [] [] [] (fun _ => empty).

Definition upd {A} (f : nat -> A) e v := fun x => if x =? e then v else f x.

(* Parts of the state replaced. *)
Definition sends s a b c d e f g h i :=
  St a b c d e f g h i (rep s) (rerr s) (gone s) (seal s) (rdead s) (rcut s) (fin s) (well s) (msgs s)
     (log s) (wrs s) (ats s) (exd s) (got s) (car s).
Definition receives s a b c d e f g h i :=
  St (posted s) (done s) (seen s) (act s) (sep s) (moving s) (doubt s) (heard s) (quiet s)
     a b c d e f g h i (log s) (wrs s) (ats s) (exd s) (got s) (car s).
Definition happens s l w a x g c :=
  St (posted s) (done s) (seen s) (act s) (sep s) (moving s) (doubt s) (heard s) (quiet s) (rep s) (rerr s)
     (gone s) (seal s) (rdead s) (rcut s) (fin s) (well s) (msgs s) l w a x g c.
Definition set_car s e c := happens s (log s) (wrs s) (ats s) (exd s) (got s) (upd (car s) e c).

Definition is_well s e := match well s e with Well => true | _ => false end.
Definition is_sick s e := match well s e with Sick => true | _ => false end.
Definition is_lost s e := match well s e with Lost => true | _ => false end.

(* R executes nothing on carrier e any more. *)
Definition dead_at s e := (e <? gone s) || ((e <? rerr s) && is_well s e) || is_lost s e.
(* ... and nothing of it is on its way to memory either: it flushed, or its packets are gone and it was counted
   twice, or it is no more. *)
Definition settled s e := ((e <? rerr s) && is_well s e) || (is_sick s e && (e <? gone s)) || is_lost s e.

(* NOPs at the sender: what was delivered, and local requests. *)
Definition nop c n := is_lc n || ((n <? nb c) && negb (mem n (again c))).

(* A request with a fence starts only when the READs before it have their data. *)
Definition fence_open c n :=
  negb (fenced n) || forallb (fun m => negb (is_rd m) || nop c m) (upto (una c) n).

(* ---- settle.c: what a move does with what is outstanding --------------------------------------- *)

(* delivered_region(): behind the c-th two-sided request, but not before n. *)
Fixpoint region c n fuel :=
  if c <=? rank n then n else match fuel with 0 => n | S f => region c (S n) f end.

(* answered_region(): a READ was answered from memory that had all before it; an atomic as well, and what it
   wrote is there if the NIC was not cut off. *)
Fixpoint answered c (cut_off : bool) lim r n fuel :=
  match fuel with
  | 0 => r
  | S f =>
      if is_two n then r
      else let known := (n <? lim) && negb (nop c n) && (is_rd n || (is_at n && negb cut_off)) in
           answered c cut_off lim (if known then S n else r) (S n) f
  end.

(* What the application saw complete last changes memory, and nothing proves that it did. *)
Fixpoint seen_unplaced c n fuel :=
  match n, fuel with
  | S m, S f => if nop c m then seen_unplaced c m f else is_wr m || is_at m
  | _, _ => false
  end.

Definition changes n := is_two n || is_wr n || is_at n.
Definition vouched b n := existsb fenced (upto (S n) b).
(* READs of [a, top) that run again, for the region that ends at b and was answered below lim. *)
Definition reads_again c a b lim top :=
  filter (fun n => is_rd n && negb (nop c n) && negb ((n <? b) && ((n <? lim) || vouched b n))) (upto a top).
(* fenced_read(): one of them would see what a request behind a fence behind it may have done. *)
Definition fenced_read c b hi rd :=
  existsb (fun n => existsb (fun m => fenced m &&
    existsb (fun k => (b <=? k) && changes k && negb (nop c k)) (upto m hi)) (upto (S n) hi)) rd.
(* leading(): what is complete at once. *)
Fixpoint leading rd b n fuel :=
  match fuel with
  | 0 => n
  | S f => if (n <? b) && negb (mem n rd) then leading rd b (S n) f else n
  end.

Inductive label :=
(* S, its application *)
| Post | Ring | Answer | Ack | See
(* S, its moves. recall: what the application has not seen complete is outstanding again. proof: a log at the
   receiver shows that requests below are in memory (0: there is none). *)
| Leave (e : nat) | Quiesce | Hear (m : word) | Settle (recall : bool) (proof : nat)
(* R's NICs *)
| Exec (e : nat) | Skip | Place (e : nat) | Comp (e : nat)
| RHang (e : nat) | RLose (e : nat) | RHeal (e : nat)
(* R *)
| RLeave (e : nat) | RQuiesce | RLifetime | Seal (is_dead is_cut : bool) | Final.

Definition guard {A} (b : bool) (x : A) := if b then Some x else None.

(* What a move decides of a direction: the line, what runs again, what is complete, what may be missing. *)
Record verdict := Verdict { v_from : nat; v_line : nat; v_again : list nat; v_done : nat; v_unplaced : bool }.
Definition settle s (m : word) (recall : bool) (proof : nat) : verdict :=
  let o := car s (act s) in
  let a := if recall then Nat.max (seen s) (lo o) else done s in
  let r := region (count m) a (hi o - a) in
  let b := Nat.max (answered o (act s <? cut m) (done s) r r (hi o - r)) proof in
  let rd := reads_again o a b (done s) (hi o) in
  Verdict a b rd (leading rd b a (b - a))
    (recall && (act s <? cut m) && (b =? a) && seen_unplaced o a (a - lo o)).
(* Where one of these does not hold, both ends get errors. *)
Definition may_settle s (m : word) (recall : bool) (proof : nat) : bool :=
  let o := car s (act s) in let v := settle s m recall proof in
  (rank (v_from v) <=? count m) && (count m <=? rank (hi o)) &&                        (* MISCOUNT *)
  forallb (fun n => nop o n || negb (is_at n) ||
                    ((n <? v_line v) && ((n <? done s) || (n <? proof)))) (upto (v_from v) (hi o)) && (* ATOMIC *)
  negb (fenced_read o (v_line v) (hi o) (v_again v)) &&                                (* FENCED_READ *)
  (negb (v_unplaced v) || forallb (fun n => nop o n || is_wr n) (upto (v_from v) (hi o))). (* MISCOUNT *)

Definition step (s : st) (l : label) : option st :=
  match l with
  (* the application posts; the doorbell may be withheld (a fence, a move) *)
  | Post => Some (sends s (S (posted s)) (done s) (seen s) (act s) (sep s) (moving s) (doubt s) (heard s) (quiet s))
  | Ring =>
      let c := car s (act s) in
      guard (negb (moving s) && (hi c <? posted s) && (negb (doubt s) || is_wr (hi c) || is_lc (hi c)))
        (set_car s (act s) (Car (lo c) (nb c) (S (hi c)) (ex c) (una c) (pl c) (cp c) (head c) (again c)))
  (* an acknowledgement, or data, has come to the NIC of S *)
  | Answer =>
      let c := car s (act s) in
      guard (una c <? ex c)
        (happens s (log s) (wrs s) (ats s) (exd s) 
           (if is_rd (una c) && negb (nop c (una c)) then una c :: got s else got s)
           (upd (car s) (act s)
                (Car (lo c) (nb c) (hi c) (ex c) (S (una c)) (pl c) (cp c) (head c) (again c))))
  (* the oldest request completes, to the engine and to the application *)
  | Ack =>
      guard (done s <? una (car s (act s)))
        (sends s (posted s) (S (done s)) (seen s) (act s) (sep s) (moving s) (doubt s) (heard s) (quiet s))
  | See =>
      guard (seen s <? done s)
        (sends s (posted s) (done s) (S (seen s)) (act s) (sep s) (moving s) (doubt s) (heard s) (quiet s))
  (* S leaves for a higher epoch, from whatever it is at *)
  | Leave e =>
      guard (sep s <? e)
        (sends s (posted s) (done s) (seen s) (act s) e true (doubt s) None (quiet s))
  | Quiesce =>
      Some (sends s (posted s) (done s) (seen s) (act s) (sep s) (moving s) (doubt s) (heard s) (sep s :: quiet s))
  (* any message about this epoch that was ever sent *)
  | Hear m =>
      guard (moving s && (act s <? sep s) &&
             existsb (fun x => (fst x =? sep s) && (count (snd x) =? count m) && (dead (snd x) =? dead m) &&
                               (cut (snd x) =? cut m)) (msgs s))
        (sends s (posted s) (done s) (seen s) (act s) (sep s) (moving s) (doubt s) (Some m) (quiet s))
  | Settle recall proof =>
      match heard s with
      | None => None
      | Some m =>
          let o := car s (act s) in let v := settle s m recall proof in
          let b := Nat.max (nb o) (v_line v) in
          guard (moving s && (act s <? sep s) && (recall || negb (act s <? dead m)) &&
                 (proof <=? pl o) && (rank proof <=? count m) && may_settle s m recall proof)
            (happens (sends s (posted s) (v_done v) (seen s) (sep s) (sep s) false
                            (doubt s || v_unplaced v) None (quiet s))
               (log s) (wrs s) (ats s) (exd s) (got s)
               (upd (car s) (sep s) (Car (v_done v) b (hi o) (v_done v) (v_done v) b b (head (car s (sep s)))
                                         (v_again v))))
      end
  (* a packet arrives at R, at once or late, on whatever carrier is not dead. READs and atomics look at memory
     behind all that was written before. *)
  | Exec e =>
      let c := car s e in let n := ex c in
      guard (negb (dead_at s e) && (n <? hi c) && negb (nop c n) &&
             (negb (is_rd n || is_at n) || (n <=? pl c)) && fence_open c n)
        (happens s (log s) (wrs s) (if is_at n then n :: ats s else ats s) (n :: exd s) (got s)
           (upd (car s) e (Car (lo c) (nb c) (hi c) (S n) (una c) (pl c) (cp c) (head c) (again c))))
  (* a NOP completes at S, whatever R is *)
  | Skip =>
      let c := car s (act s) in let n := ex c in
      guard ((n <? hi c) && nop c n && fence_open c n)
        (set_car s (act s) (Car (lo c) (nb c) (hi c) (S n) (una c) (if pl c =? n then S n else pl c)
                                (if cp c =? n then S n else cp c) (head c) (again c)))
  (* what was executed reaches memory, and then its completion, if it has one *)
  | Place e =>
      let c := car s e in let n := pl c in
      guard ((seal s <=? e) && (n <? ex c))
        (happens s (log s) (if is_wr n then n :: wrs s else wrs s) (ats s) (exd s) (got s)
           (upd (car s) e (Car (lo c) (nb c) (hi c) (ex c) (una c) (S n) (cp c) (head c) (again c))))
  | Comp e =>
      let c := car s e in let n := cp c in
      guard ((seal s <=? e) && (n <? pl c))
        (happens s (if is_two n then log s ++ [(n, head c)] else log s) (wrs s) (ats s) (exd s) (got s)
           (upd (car s) e (Car (lo c) (nb c) (hi c) (ex c) (una c) (pl c) (S n)
                               (if is_two n then S (head c) else head c) (again c))))
  (* a NIC of R stops to obey; or is gone; or obeys again: then its old QPs flush as well *)
  | RHang e =>
      guard ((seal s <=? e) && (rerr s <=? e))
        (receives s (rep s) (rerr s) (gone s) (seal s) (rdead s) (rcut s) (fin s) (upd (well s) e Sick) (msgs s))
  | RLose e =>
      guard (seal s <=? e)
        (receives s (rep s) (rerr s) (gone s) (seal s) (rdead s) (rcut s) (fin s) (upd (well s) e Lost) (msgs s))
  | RHeal e =>
      let c := car s e in
      guard ((seal s <=? e) && is_sick s e && ((rerr s <=? e) || (ex c <=? cp c)))
        (receives s (rep s) (rerr s) (gone s) (seal s) (rdead s) (rcut s) (fin s) (upd (well s) e Well) (msgs s))
  | RLeave e =>
      guard (rep s <? e)
        (receives s e (rerr s) (gone s) (seal s) (rdead s) (rcut s) false (well s) (msgs s))
  (* SC_ACT_QUIESCE: older QPs are put to ERR; those whose NIC is well flush, behind all that they have done *)
  | RQuiesce =>
      guard (forallb (fun e => negb (is_well s e) || (ex (car s e) <=? cp (car s e))) (upto (seal s) (rep s)))
        (receives s (rep s) (Nat.max (rerr s) (rep s)) (gone s) (seal s) (rdead s) (rcut s) (fin s) (well s) (msgs s))
  (* the longest packet lifetime has passed since S said quiesced for this epoch *)
  | RLifetime =>
      guard (existsb (Nat.eqb (rep s)) (quiet s))
        (receives s (rep s) (rerr s) (Nat.max (gone s) (rep s)) (seal s) (rdead s) (rcut s) (fin s) (well s) (msgs s))
  (* SC_ACT_SEAL: nothing of older carriers counts any more. R says from now on of a NIC that is not well that it
     is not, and of one that may have lost something that it may. *)
  | Seal is_dead is_cut =>
      guard (negb (fin s) && forallb (settled s) (upto 0 (rep s)) &&
             forallb (fun e => (is_well s e || is_dead) && ((ex (car s e) <=? pl (car s e)) || is_cut))
                     (upto (seal s) (rep s)))
        (receives s (rep s) (rerr s) (gone s) (rep s) (if is_dead then rep s else rdead s)
                  (if is_cut then rep s else rcut s) (fin s) (well s) (msgs s))
  (* the count is final; receives are laid into the new carrier; STATE is sent from now on *)
  | Final =>
      let c := car s (rep s) in let m := Word (length (log s)) (rdead s) (rcut s) in
      guard (negb (fin s) && negb (rep s =? 0) && (seal s =? rep s))
        (happens (receives s (rep s) (rerr s) (gone s) (seal s) (rdead s) (rcut s) true (well s) ((rep s, m) :: msgs s))
           (log s) (wrs s) (ats s) (exd s) (got s)
           (upd (car s) (rep s) (Car (lo c) (nb c) (hi c) (ex c) (una c) (pl c) (cp c) (length (log s)) (again c))))
  end.

Fixpoint run (ls : list label) (s : st) : option st :=
  match ls with
  | [] => Some s
  | l :: ls => match step s l with Some s' => run ls s' | None => None end
  end.
Definition reachable s := exists ls, run ls init = Some s.

(* Requests below were executed, or stand as delivered. *)
Definition front s := let c := car s (act s) in Nat.max (nb c) (ex c).
End Dir.
