(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* A whole connection, as the simulation's runs are held to it (tests/proof/accept): both directions (Dir.v), which have
   one epoch a side, the ordered switch (Switch.v), whose "outstanding" is that of the directions, and what comes out
   at the top: receives, taken by the application, and errors of its own. Top.v says what follows. *)
From Coq Require Import Arith List Bool.
From Shift Require Import Dir.
From Shift Require Switch.
Import ListNotations.

Section Whole.
(* Of the requests that side b posts. *)
Variable kd : bool -> nat -> kind.
Variable fd : bool -> nat -> bool.

Record one := One {
  d : st;
  took : list (nat * nat); (* receives that R's application has: request, receive *)
  own : bool               (* the application of S has an error of its own *)
}.
Record whole := W { wf : one; wt : one; sw : Switch.st }.
Definition half (w : whole) (b : bool) := if b then wt w else wf w.
Definition dir w b := d (half w b).
Definition put w (b : bool) x k := W (if b then wf w else x) (if b then x else wt w) k.
Definition start := let x := One Dir.init [] false in W x x Switch.init.

Inductive wlabel :=
| Alone (b : bool) (l : label)         (* what one direction does *)
| Go (b ordered : bool) (e : nat)      (* b leaves for e: because both are fenced, or because it must *)
| Turn (l : Switch.label)              (* what the switch does but for that *)
| Lay (b recall : bool) (proof e f : nat) (* b settles, into carrier e, whose other end bears the number f *)
| Take (b : bool) (n r : nat)          (* the application gets request n of b in its receive r *)
| Own (b : bool).                      (* ... or an error of its own *)

Definition alone (l : label) := match l with Leave _ | RLeave _ | Settle _ _ => false | _ => true end.
Definition turns (l : Switch.label) := match l with
  | Switch.Work _ | Switch.Complete _ | Switch.LeaveOrdered _ _ | Switch.LeaveFault _ _ => false | _ => true end.
Definition outstanding s := done s <? hi (car s (act s)).

(* The switch sees what is outstanding. *)
Definition sync k b s := let now := outstanding s in
  if Bool.eqb (Switch.out (Switch.at_ k b)) now then Some k
  else Switch.exec k (if now then Switch.Work b else Switch.Complete b).
Definition moves w b l := match step (kd b) (fd b) (dir w b) l with
  | None => None
  | Some s => match sync (sw w) b s with
              | None => None
              | Some k => Some (put w b (One s (took (half w b)) (own (half w b))) k)
              end
  end.

Definition wstep (w : whole) (l : wlabel) : option whole :=
  match l with
  | Alone b l => if alone l then moves w b l else None
  | Go b ordered e =>
      match step (kd b) (fd b) (dir w b) (Leave e),
            step (kd (negb b)) (fd (negb b)) (dir w (negb b)) (RLeave e),
            Switch.exec (sw w) (if ordered then Switch.LeaveOrdered b e else Switch.LeaveFault b e) with
      | Some s, Some r, Some k =>
          let x := half w b in let y := half w (negb b) in
          Some (put (put w b (One s (took x) (own x)) k) (negb b) (One r (took y) (own y)) k)
      | _, _, _ => None
      end
  | Turn l => if turns l then match Switch.exec (sw w) l with Some k => Some (W (wf w) (wt w) k) | None => None end
              else None
  | Lay b recall proof e f =>
      if negb (own (half w b)) && (e =? sep (dir w b)) && (f =? e) then moves w b (Settle recall proof) else None
  | Take b n r => let x := half w b in
      match nth_error (log (d x)) (length (took x)) with
      | Some (m, q) => if (m =? n) && (q =? r) then Some (put w b (One (d x) (took x ++ [(n, r)]) (own x)) (sw w)) else None
      | None => None
      end
  | Own b => let x := half w b in Some (put w b (One (d x) (took x) true) (sw w))
  end.

Fixpoint wrun ls w := match ls with [] => Some w | l :: ls =>
  match wstep w l with Some w' => wrun ls w' | None => None end end.
Definition wreachable w := exists ls, wrun ls start = Some w.
End Whole.
