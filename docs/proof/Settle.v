(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* shiftlib/core/settle.c, line by line, and what it promises. tests/proof/settle asks the C function and the program
   that is made of this one the same questions. *)
From Coq Require Import Arith List Bool ZArith Lia.
From Shift Require Import Wrap.
Import ListNotations.

Inductive request_kind := KWrite | KRead | KTwo | KAtomic | KLocal.
Record req := Req { kind : request_kind; published : bool; send_fence : bool; answered : bool }.
Record counts := Counts {
  c_done : Z; c_posted : Z; c_peer : Z; (* modulo 2^32 *)
  recalled : bool; cut_off : bool; seen_unplaced : bool }.
Inductive fate := Delivered | ReadAgain | Resend.
Inductive reason := RNone | RMiscount | RAtomic | RFencedRead.
(* The fates, how many lead and are complete, and whether something seen complete may be missing. *)
Record answer := Answer { why : reason; fates : list fate; delivered : nat; unplaced : bool }.

Definition is_kind k r := match k, kind r with
  | KWrite, KWrite | KRead, KRead | KTwo, KTwo | KAtomic, KAtomic | KLocal, KLocal => true | _, _ => false end.
Definition is_two r := published r && is_kind KTwo r.
Definition is_atomic r := published r && is_kind KAtomic r.

(* published_two_sided() *)
Definition two_sided (l : list req) := length (filter is_two l).

(* delivered_region() *)
Fixpoint region (l : list req) (counted : nat) : nat :=
  match counted, l with
  | 0, _ | _, [] => 0
  | S c, r :: l => S (region l (if is_two r then c else S c))
  end.

(* answered_region(), from i on *)
Fixpoint answered_region (l : list req) (cut : bool) (i best : nat) : nat :=
  match l with
  | [] => best
  | r :: l =>
      if is_kind KTwo r then best
      else answered_region l cut (S i)
             (if answered r && (is_kind KRead r || (is_kind KAtomic r && negb cut)) then S i else best)
  end.

(* fates_of_region(): from behind, vouched by a fence *)
Fixpoint fates_of_region (l : list req) : list fate * bool :=
  match l with
  | [] => ([], false)
  | r :: l => let (f, vouched) := fates_of_region l in
              ((if is_kind KRead r && negb (answered r) && negb vouched then ReadAgain else Delivered) :: f,
               vouched || send_fence r)
  end.
Definition all_fates (l : list req) (n : nat) : list fate :=
  fst (fates_of_region (firstn n l)) ++ map (fun _ => Resend) (skipn n l).

(* atomic_of_unknown_fate() *)
Fixpoint atomic_of_unknown_fate (l : list req) (n : nat) : bool :=
  match l with
  | [] => false
  | r :: l => is_atomic r && negb (answered r && negb (n =? 0)) || atomic_of_unknown_fate l (pred n)
  end.

Definition may_have_run r := published r && negb (is_kind KRead r) && negb (is_kind KLocal r).

(* fenced_read() *)
Fixpoint fenced_read (l : list (req * fate)) (n : nat) (read behind : bool) : bool :=
  match l with
  | [] => false
  | (r, f) :: l =>
      let behind := behind || (read && published r && send_fence r) in
      if behind && (n =? 0) && may_have_run r then true
      else fenced_read l (pred n)
             (read || (published r && is_kind KRead r && match f with Delivered => false | _ => true end)) behind
  end.

Fixpoint leading (l : list (req * fate)) (n : nat) : nat :=
  match l, n with
  | (r, Delivered) :: l, S n => if is_kind KAtomic r && negb (answered r) then 0 else S (leading l n)
  | _, _ => 0
  end.

Definition tells_of_writes (l : list req) := existsb (fun r => negb (is_kind KWrite r) && negb (is_kind KLocal r)) l.

Definition sc_settle (l : list req) (c : counts) : answer :=
  let counted := minus32 (c_peer c) (c_done c) in
  if (minus32 (c_posted c) (c_done c) <? counted)%Z || (Z.of_nat (two_sided l) <? counted)%Z
  then Answer RMiscount [] 0 false
  else
    let a := region l (Z.to_nat counted) in
    let n := answered_region (skipn a l) (cut_off c) a a in
    let f := all_fates l n in
    let d := leading (combine l f) n in
    let u := recalled c && cut_off c && seen_unplaced c && (n =? 0) in
    Answer (if u && tells_of_writes l then RMiscount
            else if atomic_of_unknown_fate l n then RAtomic
            else if fenced_read (combine l f) n false false then RFencedRead
            else RNone) f d u.

(* ---- what it promises -------------------------------------------------------------------------- *)

(* The peer executes in order. Of the first x requests all receives have completed. *)
Lemma filter_le {A} (f : A -> bool) l : length (filter f l) <= length l.
Proof. induction l; simpl; auto. destruct (f a); simpl; lia. Qed.

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

Lemma region_length l : forall c, region l c <= length l.
Proof. induction l; destruct c; simpl; try lia; destruct (is_two a); apply le_n_S, IHl. Qed.

(* What was answered is as far as it goes. *)
Lemma answered_spec cut l : forall i best, best <= i ->
  let n := answered_region l cut i best in
  best <= n /\ n <= i + length l /\
  (n = best \/ exists k r, n = S (i + k) /\ nth_error l k = Some r /\ answered r = true).
Proof.
  induction l as [|r l IH]; intros i best B; cbv zeta in *; cbn [answered_region length].
  - split; [lia|split; [lia|left; reflexivity]].
  - destruct (is_kind KTwo r); [split; [lia|split; [lia|left; reflexivity]]|].
    destruct (answered r && _) eqn:A.
    + apply andb_true_iff in A as [A _]. destruct (IH (S i) (S i)) as (X & Y & Z); auto.
      split; [lia|]. split; [lia|]. right. destruct Z as [Z|(k & q & Z & N & Q)].
      * exists 0, r. rewrite Z. split; [lia|]. auto.
      * exists (S k), q. rewrite Z. split; [lia|]. auto.
    + destruct (IH (S i) best) as (X & Y & Z); [lia|]. split; [lia|]. split; [lia|].
      destruct Z as [Z|(k & q & Z & N & Q)]; auto. right. exists (S k), q. rewrite Z. split;
      [lia|]. auto.
Qed.

Lemma nth_skipn (l : list req) : forall a k, nth_error (skipn a l) k = nth_error l (a + k).
Proof.
  induction l; intros [|a'] k; simpl; auto. destruct k; auto.
Qed.

Lemma fates_length l : length (fst (fates_of_region l)) = length l.
Proof. induction l; simpl; auto. destruct (fates_of_region l). simpl in *. congruence. Qed.

Lemma fates_no_resend l : forall i, nth_error (fst (fates_of_region l)) i <> Some Resend.
Proof.
  induction l as [|r l IH]; intros i; simpl.
  - destruct i; discriminate.
  - destruct (fates_of_region l) as [f v]. simpl in *. destruct i; simpl; auto.
    destruct (_ && _); discriminate.
Qed.

Lemma fates_split l n i : n <= length l -> i < length l ->
  (i < n -> nth_error (all_fates l n) i = nth_error (fst (fates_of_region (firstn n l))) i) /\
  (n <= i -> nth_error (all_fates l n) i = Some Resend).
Proof.
  intros N L. unfold all_fates.
  assert (A : length (fst (fates_of_region (firstn n l))) = n).
  { rewrite fates_length, firstn_length. lia. }
  split; intros H.
  - apply nth_error_app1. lia.
  - rewrite nth_error_app2 by lia. rewrite A, nth_error_map.
    destruct (nth_error (skipn n l) (i - n)) eqn:Q; auto.
    apply nth_error_None in Q. rewrite skipn_length in Q. lia.
Qed.

Lemma atomic_known l : forall n i r, atomic_of_unknown_fate l n = false -> nth_error l i = Some r ->
  is_atomic r = true -> answered r = true /\ i < n.
Proof.
  induction l as [|q l IH]; intros n i r H N A; [destruct i; discriminate|].
  simpl in H. apply orb_false_iff in H as [H1 H2]. destruct i as [|i]; simpl in N.
  - injection N as N; subst. rewrite A in H1. simpl in H1.
    apply negb_false_iff, andb_true_iff in H1 as [X Y].
    split; auto. apply negb_true_iff, Nat.eqb_neq in Y. lia.
  - destruct (IH (pred n) i r H2 N A). split; auto. lia.
Qed.

(* Of the first x requests all receives have completed; the first y were executed, what was answered among them.
   Then what is sent again was not received (if it is two-sided), what is not sent again was executed, and no atomic
   is sent again whose value has not come. The counts may have wrapped. *)
Theorem settle_sound l d posted x y c i r :
  c_done c = (d mod range)%Z -> c_peer c = ((d + Z.of_nat (two_sided (firstn x l))) mod range)%Z ->
  c_posted c = posted -> (Z.of_nat (length l) < half)%Z -> x <= y ->
  (forall k q, nth_error l k = Some q -> answered q = true -> k < y) ->
  why (sc_settle l c) = RNone -> nth_error l i = Some r ->
  (nth_error (fates (sc_settle l c)) i = Some Resend -> is_two r = true -> x <= i) /\
  (nth_error (fates (sc_settle l c)) i <> Some Resend -> i < y) /\
  (is_atomic r = true -> answered r = true /\ nth_error (fates (sc_settle l c)) i <> Some Resend).
Proof.
  intros CD CP CO LL XY AN W N.
  assert (TL : two_sided (firstn x l) <= length l).
  { unfold two_sided. eapply Nat.le_trans; [apply filter_le|]. rewrite firstn_length. lia. }
  assert (E : minus32 (c_peer c) (c_done c) = Z.of_nat (two_sided (firstn x l))).
  { rewrite CD, CP. apply count_survives_the_wrap. unfold range, half in *. lia. }
  unfold sc_settle in *. rewrite E, Nat2Z.id in *.
  destruct (_ || _)%bool; [discriminate|]. cbn [why fates] in *.
  set (a := region l (two_sided (firstn x l))) in *.
  set (n := answered_region (skipn a l) (cut_off c) a a) in *.
  destruct (_ && tells_of_writes l); [discriminate|].
  destruct (atomic_of_unknown_fate l n) eqn:A; [discriminate|]. clear W.
  assert (L : i < length l) by (apply nth_error_Some; congruence).
  assert (AL : a <= length l) by apply region_length.
  assert (AX : a <= x) by (apply region_executed; auto).
  destruct (answered_spec (cut_off c) (skipn a l) a a) as (N1 & N2 & N3); auto.
  fold n in N1, N2, N3.
  rewrite skipn_length in N2.
  assert (NY : n <= y).
  { destruct N3 as [->|(k & q & -> & Q & AQ)]; [lia|].
    assert (X : nth_error l (a + k) = Some q).
    { rewrite <- Q. symmetry. apply nth_skipn. }
    specialize (AN _ _ X AQ). lia. }
  destruct (fates_split l n i) as [F1 F2]; [lia|auto|].
  assert (NR : i < n -> nth_error (all_fates l n) i <> Some Resend).
  { intros I. rewrite (F1 I). apply fates_no_resend. }
  split; [|split].
  - intros R T. destruct (Nat.lt_ge_cases i x) as [I|]; auto. exfalso.
    pose proof (region_covers l x _ eq_refl i r N I T) as B. fold a in B. apply NR; [lia|auto].
  - intros R. destruct (Nat.lt_ge_cases i n); [lia|]. rewrite F2 in R; congruence.
  - intros T. destruct (atomic_known l n i r A N T). split; auto.
Qed.

(* Nothing that the peer can say of what really happened is a MISCOUNT, but where a WRITE may be missing. *)
Theorem settle_accepts_truth l d x c :
  c_done c = (d mod range)%Z -> c_peer c = ((d + Z.of_nat (two_sided (firstn x l))) mod range)%Z ->
  c_posted c = ((d + Z.of_nat (two_sided l)) mod range)%Z -> (Z.of_nat (length l) < half)%Z ->
  unplaced (sc_settle l c) = false -> why (sc_settle l c) <> RMiscount.
Proof.
  intros CD CP CO LL U.
  assert (T : two_sided (firstn x l) <= two_sided l).
  { unfold two_sided. rewrite <- (firstn_skipn x l) at 2. rewrite filter_app, app_length. lia. }
  assert (TL : two_sided l <= length l) by apply filter_le.
  assert (E : minus32 (c_peer c) (c_done c) = Z.of_nat (two_sided (firstn x l))).
  { rewrite CD, CP. apply count_survives_the_wrap. unfold range, half in *. lia. }
  assert (F : minus32 (c_posted c) (c_done c) = Z.of_nat (two_sided l)).
  { rewrite CD, CO. apply count_survives_the_wrap. unfold range, half in *. lia. }
  unfold sc_settle in *. rewrite E, F in *.
  rewrite (proj2 (Z.ltb_ge (Z.of_nat (two_sided l)) (Z.of_nat (two_sided (firstn x l)))) ltac:(lia)) in *.
  cbn [orb] in *. cbn [why unplaced] in *. rewrite U. cbn [andb].
  destruct (atomic_of_unknown_fate _ _); [discriminate|]. destruct (fenced_read _ _ _ _);
  discriminate.
Qed.
