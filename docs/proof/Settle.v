(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* shiftlib/settle.c, line by line, and what it promises. Extracted as an oracle for the C function. *)
From Coq Require Import Arith List Bool Lia.
Import ListNotations.

Inductive rkind := KWrite | KRead | KTwo | KAtomic | KLocal.
Record req := Req { kind : rkind; published : bool; fenced : bool }.
Inductive fate := Delivered | ReadAgain | Resend.
Inductive reason := RNone | RMiscount | RAtomic | RFencedRead.

Definition is_two r := published r && match kind r with KTwo => true | _ => false end.
Definition is_read r := match kind r with KRead => true | _ => false end.
Definition is_atomic r := published r && match kind r with KAtomic => true | _ => false end.

Definition two_sided (l : list req) := length (filter is_two l).

(* delivered_region() *)
Fixpoint region (l : list req) (counted : nat) : nat :=
  match counted, l with
  | 0, _ | _, [] => 0
  | S c, r :: l => S (region l (if is_two r then c else S c))
  end.

(* fates_of_region(): from behind, `vouched` by a fence *)
Fixpoint fates_region (l : list req) : list fate * bool :=
  match l with
  | [] => ([], false)
  | r :: l => let (f, vouched) := fates_region l in
              ((if is_read r && negb vouched then ReadAgain else Delivered) :: f, vouched || fenced r)
  end.

Definition fates (l : list req) (n : nat) : list fate :=
  fst (fates_region (firstn n l)) ++ map (fun _ => Resend) (skipn n l).

Definition may_have_run r :=
  published r && match kind r with KWrite | KTwo | KAtomic => true | _ => false end.

(* fenced_read() *)
Fixpoint fenced_read (l : list (req * fate)) (region : nat) (read behind : bool) : bool :=
  match l with
  | [] => false
  | (r, f) :: l =>
      let behind := behind || (read && published r && fenced r) in
      if behind && (region =? 0) && may_have_run r then true
      else fenced_read l (pred region)
             (read || (published r && is_read r && match f with Delivered => false | _ => true end)) behind
  end.

Fixpoint leading (l : list (req * fate)) (region : nat) : nat :=
  match l, region with
  | (r, Delivered) :: l, S n => match kind r with KAtomic => 0 | _ => S (leading l n) end
  | _, _ => 0
  end.

(* counted = peer_count - two_sided_done, so a count below is a MISCOUNT of the C function by wrapping;
   here it is given as two numbers. *)
Definition settle (l : list req) (done posted count : nat) : reason * list fate * nat :=
  if (count <? done) || (posted - done <? count - done) || (two_sided l <? count - done)
  then (RMiscount, [], 0)
  else let n := region l (count - done) in
       let f := fates l n in
       let d := leading (combine l f) n in
       if existsb is_atomic l then (RAtomic, f, d)
       else if fenced_read (combine l f) n false false then (RFencedRead, f, d)
       else (RNone, f, d).

(* ---- what it promises -------------------------------------------------------------------------- *)

(* The peer executes published requests in order: x of them. *)
Lemma region_executed l : forall x c, two_sided (firstn x l) = c -> region l c <= x.
Proof.
  induction l as [|r l IH]; intros x c E; simpl.
  - destruct c; lia.
  - destruct c as [|c]; [lia|]. destruct x as [|x]; simpl in E; [discriminate|].
    unfold two_sided in *. simpl in E. apply le_n_S. destruct (is_two r); simpl in E.
    + apply IH. lia.
    + apply IH. auto.
Qed.

Lemma region_covers l : forall x c, two_sided (firstn x l) = c ->
  forall i r, nth_error l i = Some r -> i < x -> is_two r = true -> i < region l c.
Proof.
  induction l as [|q l IH]; intros x c E i r N L T.
  - destruct i; discriminate.
  - destruct x as [|x]; [lia|]. simpl in E. unfold two_sided in *. simpl in E.
    destruct i as [|i]; simpl in N.
    + injection N as N; subst q. rewrite T in E. simpl in E. destruct c; [lia|]. simpl. lia.
    + assert (H : forall c', length (filter is_two (firstn x l)) = c' -> i < region l c').
      { intros. eapply IH; eauto. lia. }
      destruct (is_two q) eqn:Q; simpl in E; destruct c as [|c]; try lia.
      * simpl. rewrite Q. specialize (H c). lia.
      * specialize (H 0 E). destruct l; simpl in H; lia.
      * simpl. rewrite Q. specialize (H (S c) E). lia.
Qed.

Lemma fates_region_length l : length (fst (fates_region l)) = length l.
Proof. induction l; simpl; auto. destruct (fates_region l). simpl in *. congruence. Qed.

Lemma fates_region_no_resend l : forall i, nth_error (fst (fates_region l)) i <> Some Resend.
Proof.
  induction l as [|r l IH]; intros i; simpl.
  - destruct i; discriminate.
  - destruct (fates_region l) as [f v]. simpl in *. destruct i; simpl; auto.
    destruct (is_read r && negb v); discriminate.
Qed.

Lemma region_length l : forall c, region l c <= length l.
Proof. induction l; destruct c; simpl; try lia; destruct (is_two a); apply le_n_S, IHl. Qed.

Lemma fates_split l n i : n <= length l -> i < length l ->
  (i < n -> nth_error (fates l n) i = nth_error (fst (fates_region (firstn n l))) i) /\
  (n <= i -> nth_error (fates l n) i = Some Resend).
Proof.
  intros N L. unfold fates.
  assert (A : length (fst (fates_region (firstn n l))) = n).
  { rewrite fates_region_length, firstn_length. lia. }
  split; intros H.
  - apply nth_error_app1. lia.
  - rewrite nth_error_app2 by lia. rewrite A, nth_error_map.
    destruct (nth_error (skipn n l) (i - n)) eqn:Q; auto.
    apply nth_error_None in Q. rewrite skipn_length in Q. lia.
Qed.

(* What is sent again was not received (two-sided); what is not sent again was executed. *)
Theorem settle_sound l done posted x f d i r :
  settle l done posted (done + two_sided (firstn x l)) = (RNone, f, d) -> nth_error l i = Some r ->
  (nth_error f i = Some Resend -> is_two r = true -> x <= i) /\
  (nth_error f i <> Some Resend -> i < x) /\
  is_atomic r = false.
Proof.
  unfold settle. intros H N. set (c := done + two_sided (firstn x l)) in *.
  assert (C : c - done = two_sided (firstn x l)) by lia. rewrite C in H.
  destruct (_ || _); [discriminate|]. destruct (existsb is_atomic l) eqn:A; [discriminate|].
  destruct (fenced_read _ _ _ _); [discriminate|]. inversion H; subst f; clear H.
  set (n := region l (two_sided (firstn x l))) in *.
  assert (L : i < length l) by (apply nth_error_Some; congruence).
  destruct (fates_split l n i (region_length _ _) L) as [F1 F2].
  assert (R : n <= x) by (apply region_executed; auto).
  split; [|split].
  - intros E T. destruct (Nat.lt_ge_cases i n) as [I|I].
    + rewrite (F1 I) in E. exfalso. eapply fates_region_no_resend; eauto.
    + destruct (Nat.lt_ge_cases i x); auto. exfalso.
      pose proof (region_covers l x _ eq_refl i r N H T). unfold n in I. lia.
  - intros E. destruct (Nat.lt_ge_cases i n); try lia. rewrite F2 in E; congruence.
  - destruct (is_atomic r) eqn:Q; auto. exfalso.
    assert (existsb is_atomic l = true) by (apply existsb_exists; exists r; eauto using nth_error_In).
    congruence.
Qed.

(* Nothing that the peer can say of what really happened is a MISCOUNT. *)
Theorem settle_accepts_truth l done posted x : done + two_sided l <= posted ->
  fst (fst (settle l done posted (done + two_sided (firstn x l)))) <> RMiscount.
Proof.
  intros P. unfold settle.
  assert (T : two_sided (firstn x l) <= two_sided l).
  { unfold two_sided. rewrite <- (firstn_skipn x l) at 2. rewrite filter_app, app_length. lia. }
  rewrite (proj2 (Nat.ltb_ge _ _)) by lia. rewrite (proj2 (Nat.ltb_ge _ _)) by lia.
  rewrite (proj2 (Nat.ltb_ge _ _)) by lia. simpl.
  destruct (existsb _ _); [discriminate|]. destruct (fenced_read _ _ _ _); discriminate.
Qed.
