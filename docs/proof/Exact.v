(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* settle.c with an expected PSN, as in Settle.v line by line, and what it promises where the peer's NIC lives. *)
From Coq Require Import Arith List Bool ZArith Lia.
From Shift Require Import Wrap Settle.
Import ListNotations.

Definition psns : Z := 16777216. (* 2^24 *)

(* A request, and how many numbers it takes. They follow each other. *)
Definition numbered := (req * nat)%type.
Definition reqs (l : list numbered) := map fst l.

(* packets() *)
Fixpoint total (l : list numbered) : nat :=
  match l with [] => 0 | (r, p) :: l => (if published r then p else 0) + total l end.

(* exact_look(): from the i-th on, which starts `start` packets behind the first. How many lead that ran, and that have
   begun. *)
Fixpoint look (l : list numbered) (i start taken ran begun : nat) : nat * nat :=
  match l with
  | [] => (ran, begun)
  | (r, p) :: l =>
      if published r && negb (p =? 0)
      then look l (S i) (start + p) taken (if start + p <=? taken then S i else ran)
             (if start <? taken then S i else begun)
      else look l (S i) start taken ran begun
  end.

(* psn_behind() *)
Definition behind (x base : Z) : Z := ((x - base) mod psns)%Z.

(* exact_contradicts() *)
Definition contradicts (l : list req) (rec : bool) (counted : Z) (ran : nat) : bool :=
  let n := Z.of_nat (two_sided (firstn ran l)) in
  if rec then (n <? counted)%Z else negb (n =? counted)%Z.

(* exact_of(): (ran, begun) where it is known, and whether it is doubted. taken: packets behind the first, if a number was
   told and the requests have theirs. *)
Definition exact_of (l : list numbered) (rec : bool) (counted : Z) (taken : option Z) : option (nat * nat) * bool :=
  match taken with
  | None => (None, false)
  | Some t =>
      if match l with [] => true | _ => false end || (psns <=? Z.of_nat (total l))%Z then (None, false)
      else
        let f := look l 0 0 (Z.to_nat t) 0 0 in
        if (Z.of_nat (total l) <? t)%Z || contradicts (reqs l) rec counted (fst f) then (None, true)
        else (Some f, false)
  end.

(* The first n of those that have begun, b of them; what is behind is sent again. *)
Definition fates_of (l : list req) (n b : nat) : list fate :=
  firstn n (fst (fates_of_region (firstn b l))) ++ map (fun _ => Resend) (skipn n l).

Definition sc_settle_exact (l : list numbered) (c : counts) (taken : option Z) : answer * bool :=
  let r := reqs l in
  let counted := minus32 (c_peer c) (c_done c) in
  if (minus32 (c_posted c) (c_done c) <? counted)%Z || (Z.of_nat (two_sided r) <? counted)%Z
  then (Answer RMiscount [] 0 false, false)
  else
    let (exact, doubted) := exact_of l (recalled c) counted taken in
    let a := region r (Z.to_nat counted) in
    let n0 := answered_region (skipn a r) (cut_off c) a a in
    let (n, b) := match exact with Some (ran, begun) => if recalled c then (n0, n0) else (ran, begun)
                                 | None => (n0, n0) end in
    let started := match exact with Some (_, begun) => firstn begun r | None => r end in
    let f := fates_of r n b in
    let d := leading (combine r f) n in
    let u := recalled c && cut_off c && seen_unplaced c && (n =? 0) in
    (Answer (if u && tells_of_writes r then RMiscount
             else if atomic_of_unknown_fate started n then RAtomic
             else if fenced_read (combine started f) n false false then RFencedRead
             else RNone) f d u, doubted).

(* ---- without a number it is sc_settle() -------------------------------------------------------- *)

Theorem no_number_is_today l c : fst (sc_settle_exact l c None) = sc_settle (reqs l) c /\
  snd (sc_settle_exact l c None) = false.
Proof.
  unfold sc_settle_exact, sc_settle, fates_of, all_fates. cbn [exact_of].
  destruct (_ || _)%bool; [auto|]. cbn [fst snd]. split; auto.
  set (r := reqs l). set (a := region r _). set (n := answered_region _ _ _ _).
  replace (firstn n (fst (fates_of_region (firstn n r)))) with (fst (fates_of_region (firstn n r))); auto.
  symmetry. apply firstn_all2. rewrite fates_length, firstn_length. lia.
Qed.

(* ---- what a number says ------------------------------------------------------------------------ *)

(* The responder takes packets in order. Of the first t, all of the k-th request, or some, are among them. *)
Definition ran_by (l : list numbered) (t k : nat) := total (firstn (S k) l) <= t.
Definition begun_by (l : list numbered) (t k : nat) := total (firstn k l) < t.

Lemma look_over l : forall i start t ran begun, t < start -> look l i start t ran begun = (ran, begun).
Proof.
  induction l as [|[r p] l IH]; intros i start t ran begun H; simpl; auto.
  destruct (_ && _); [|auto].
  replace (start + p <=? t) with false by (symmetry; apply Nat.leb_gt; lia).
  replace (start <? t) with false by (symmetry; apply Nat.ltb_ge; lia). apply IH. lia.
Qed.

(* What one request does to the two bounds. *)
Ltac bounds i start p t ran begun :=
  set (x := if start + p <=? t then S i else ran); set (y := if start <? t then S i else begun);
  assert (ran <= x /\ x <= S i) by (unfold x; destruct (_ <=? _); lia);
  assert (begun <= y /\ y <= S i) by (unfold y; destruct (_ <? _); lia).

Lemma look_grows l : forall i start t ran begun, ran <= i -> begun <= i ->
  ran <= fst (look l i start t ran begun) /\ begun <= snd (look l i start t ran begun).
Proof.
  induction l as [|[r p] l IH]; intros i start t ran begun A B; simpl; auto.
  destruct (_ && _).
  - bounds i start p t ran begun. destruct (IH (S i) (start + p) t x y); lia.
  - apply IH; lia.
Qed.

Lemma look_length l : forall i start t ran begun, ran <= i -> begun <= i ->
  fst (look l i start t ran begun) <= i + length l /\ snd (look l i start t ran begun) <= i + length l.
Proof.
  induction l as [|[r p] l IH]; intros i start t ran begun A B; simpl; [lia|].
  destruct (_ && _).
  - bounds i start p t ran begun. destruct (IH (S i) (start + p) t x y); lia.
  - destruct (IH (S i) start t ran begun); lia.
Qed.

Lemma look_order l : forall i start t ran begun, ran <= begun -> begun <= i ->
  fst (look l i start t ran begun) <= snd (look l i start t ran begun).
Proof.
  induction l as [|[r p] l IH]; intros i start t ran begun A B; simpl; auto.
  destruct (published r && negb (p =? 0)) eqn:P.
  - apply andb_true_iff in P as [_ P]. apply negb_true_iff, Nat.eqb_neq in P.
    apply IH; destruct (Nat.leb_spec (start + p) t), (Nat.ltb_spec start t); lia.
  - apply IH; lia.
Qed.

Lemma look_spec l : forall i start t ran begun, ran <= i -> begun <= i ->
  forall k r p, nth_error l k = Some (r, p) -> published r = true -> 0 < p ->
  (i + k < fst (look l i start t ran begun) <-> start + total (firstn (S k) l) <= t) /\
  (i + k < snd (look l i start t ran begun) <-> start + total (firstn k l) < t).
Proof.
  induction l as [|[q z] l IH]; intros i start t ran begun A B k r p N P Z.
  - destruct k; discriminate.
  - destruct k as [|k]; cbn [nth_error] in N.
    + injection N as -> ->. cbn [firstn total look]. rewrite P.
      replace (p =? 0) with false by (symmetry; apply Nat.eqb_neq; lia). cbn [negb andb].
      bounds i start p t ran begun.
      destruct (look_grows l (S i) (start + p) t x y) as [X Y]; [lia|lia|].
      split; split; intros Q.
      * destruct (Nat.leb_spec (start + p) t) as [|F]; [lia|exfalso].
        rewrite look_over in Q by lia. cbn [fst] in Q. lia.
      * assert (x = S i) by (unfold x; replace (start + p <=? t) with true; auto;
          symmetry; apply Nat.leb_le; lia). lia.
      * destruct (Nat.ltb_spec start t) as [|F]; [lia|exfalso].
        rewrite look_over in Q by lia. cbn [snd] in Q. lia.
      * assert (y = S i) by (unfold y; replace (start <? t) with true; auto;
          symmetry; apply Nat.ltb_lt; lia). lia.
    + cbn [look]. replace (i + S k) with (S i + k) by lia.
      assert (E : forall m, total (firstn (S m) ((q, z) :: l)) =
                            (if published q then z else 0) + total (firstn m l)) by reflexivity.
      rewrite !E. destruct (published q && negb (z =? 0)) eqn:Q.
      * apply andb_true_iff in Q as [Q _]. rewrite Q, !Nat.add_assoc.
        bounds i start z t ran begun. apply IH with (r := r) (p := p); auto; lia.
      * assert (W : (if published q then z else 0) = 0).
        { destruct (published q); auto. simpl in Q. apply negb_false_iff, Nat.eqb_eq in Q. auto. }
        rewrite W, !Nat.add_0_l. apply IH with (r := r) (p := p); auto; lia.
Qed.

(* Whatever it wraps. *)
Lemma behind_wraps base t : (0 <= t < psns)%Z -> behind ((base + t) mod psns) base = t.
Proof.
  intros H. unfold behind. rewrite Zminus_mod_idemp_l. replace (base + t - base)%Z with t by lia.
  apply Z.mod_small. auto.
Qed.

(* ---- what it promises -------------------------------------------------------------------------- *)

Lemma fates_of_split (r : list req) n b i : n <= b -> b <= length r -> i < length r ->
  (i < n -> nth_error (fates_of r n b) i <> Some Resend) /\
  (n <= i -> nth_error (fates_of r n b) i = Some Resend).
Proof.
  intros NB BL L. unfold fates_of.
  assert (A : length (fst (fates_of_region (firstn b r))) = b) by (rewrite fates_length, firstn_length; lia).
  assert (F : length (firstn n (fst (fates_of_region (firstn b r)))) = n) by (rewrite firstn_length; lia).
  split; intros H.
  - rewrite nth_error_app1 by lia. intros E.
    apply (fates_no_resend (firstn b r) i). rewrite <- E.
    set (f := fst (fates_of_region (firstn b r))) in *. rewrite <- (firstn_skipn n f) at 1.
    apply nth_error_app1. lia.
  - rewrite nth_error_app2 by lia. rewrite F, nth_error_map.
    destruct (nth_error (skipn n r) (i - n)) eqn:Q; auto.
    apply nth_error_None in Q. rewrite skipn_length in Q. lia.
Qed.

(* t packets were taken, the peer's NIC lives, and nothing contradicts the number. Then what is sent again as a whole did
   not run; what is not sent again, or is a READ that is read again, did; and an atomic that ran without its answer
   ends the connection. X1 of the simulation. *)
Theorem settle_exact_sound l c base t i r p :
  let x := ((base + Z.of_nat t) mod psns)%Z in
  let a := sc_settle_exact l c (Some (behind x base)) in
  recalled c = false -> t <= total l -> (Z.of_nat (total l) < psns)%Z ->
  snd a = false -> why (fst a) = RNone -> nth_error l i = Some (r, p) -> published r = true -> 0 < p ->
  (nth_error (fates (fst a)) i = Some Resend <-> ~ ran_by l t i) /\
  (is_atomic r = true -> ran_by l t i -> answered r = true) /\
  (is_atomic r = true -> begun_by l t i -> ran_by l t i).
Proof.
  intros x a RC TT TP DB W N P Z. subst a x.
  rewrite behind_wraps in * by lia. unfold sc_settle_exact in *.
  destruct (_ || _)%bool; [discriminate|].
  unfold exact_of in *. rewrite RC in *.
  destruct l as [|l0 l']; [destruct i; discriminate|]. set (l := l0 :: l') in *.
  replace (psns <=? Z.of_nat (total l))%Z with false in * by (symmetry; apply Z.leb_gt; lia).
  cbn [orb] in *.
  replace (Z.of_nat (total l) <? Z.of_nat t)%Z with false in * by (symmetry; apply Z.ltb_ge; lia).
  cbn [orb] in *. rewrite Nat2Z.id in *.
  destruct (contradicts _ _ _ _); [discriminate|].
  destruct (look_spec l 0 0 t 0 0 ltac:(lia) ltac:(lia) i r p N P Z) as [R B].
  destruct (look_length l 0 0 t 0 0) as [LR LB]; [lia|lia|].
  pose proof (look_order l 0 0 t 0 0 ltac:(lia) ltac:(lia)) as O.
  destruct (look l 0 0 t 0 0) as [ran begun]. cbn [fst snd] in *. cbn [plus] in R, B.
  cbn [why fates andb] in *.
  destruct (atomic_of_unknown_fate _ _) eqn:A; [discriminate|].
  assert (L : i < length l) by (apply nth_error_Some; congruence).
  assert (LL : length (reqs l) = length l) by apply map_length.
  destruct (fates_of_split (reqs l) ran begun i) as [F1 F2]; [lia|lia|lia|].
  assert (NR : nth_error (reqs l) i = Some r).
  { unfold reqs. erewrite map_nth_error; [|apply N]. auto. }
  assert (AT : is_atomic r = true -> i < begun -> answered r = true /\ i < ran).
  { intros T I. apply (atomic_known (firstn begun (reqs l)) ran i r A); auto.
    rewrite <- NR. rewrite <- (firstn_skipn begun (reqs l)) at 2. symmetry. apply nth_error_app1.
    rewrite firstn_length. lia. }
  unfold ran_by, begun_by in *. split; [|split].
  - split; intros H.
    + intros Q. apply R in Q. apply (F1 Q H).
    + apply F2. destruct (Nat.lt_ge_cases i ran) as [I|]; auto. exfalso. apply H, R, I.
  - intros T Q. apply AT; auto. apply R in Q. lia.
  - intros T Q. apply R. apply AT; auto. apply B, Q.
Qed.

(* Two-sided requests all of whose packets are among the first t. *)
Fixpoint two_ran (l : list numbered) (start t : nat) : nat :=
  match l with
  | [] => 0
  | (r, p) :: l => (if is_two r && (start + p <=? t) then 1 else 0) + two_ran l (start + (if published r then p else 0)) t
  end.

Lemma two_ran_over l : forall start t, t < start -> two_ran l start t = 0.
Proof.
  induction l as [|[r p] l IH]; intros start t H; simpl; auto.
  replace (start + p <=? t) with false by (symmetry; apply Nat.leb_gt; lia).
  rewrite andb_false_r. apply IH. lia.
Qed.

Lemma two_cons r l n : two_sided (firstn (S n) (r :: l)) = (if is_two r then 1 else 0) + two_sided (firstn n l).
Proof. unfold two_sided. simpl. destruct (is_two r); auto. Qed.

Lemma look_two l : forall i start t ran begun, ran <= i -> begun <= i ->
  (forall r p, In (r, p) l -> is_two r = true -> 0 < p) ->
  two_sided (firstn (fst (look l i start t ran begun) - i) (reqs l)) = two_ran l start t.
Proof.
  induction l as [|[r p] l IH]; intros i start t ran begun A B T.
  - simpl. replace (ran - i) with 0 by lia. auto.
  - assert (T' : forall r p, In (r, p) l -> is_two r = true -> 0 < p) by (intros; eapply T; [right|]; eauto).
    cbn [look two_ran reqs map fst]. fold (reqs l).
    destruct (published r && negb (p =? 0)) eqn:Q.
    + apply andb_true_iff in Q as [Q _]. rewrite Q.
      bounds i start p t ran begun. destruct (look_grows l (S i) (start + p) t x y) as [X _]; [lia|lia|].
      destruct (Nat.leb_spec (start + p) t) as [I|I].
      * assert (E : x = S i) by (unfold x; replace (start + p <=? t) with true; auto;
          symmetry; apply Nat.leb_le; lia).
        rewrite andb_true_r. specialize (IH (S i) (start + p) t x y ltac:(lia) ltac:(lia) T').
        set (n := fst (look l (S i) (start + p) t x y)) in *.
        replace (n - i) with (S (n - S i)) by lia. rewrite two_cons, IH. auto.
      * assert (E : x = ran) by (unfold x; replace (start + p <=? t) with false; auto;
          symmetry; apply Nat.leb_gt; lia).
        rewrite andb_false_r, look_over by lia. cbn [fst]. replace (x - i) with 0 by lia.
        rewrite two_ran_over by lia. auto.
    + assert (E : is_two r = false).
      { destruct (is_two r) eqn:E; auto. specialize (T r p (or_introl eq_refl) E).
        unfold is_two in E. apply andb_true_iff in E as [E _]. rewrite E in Q. simpl in Q.
        apply negb_false_iff, Nat.eqb_eq in Q. lia. }
      assert (W : start + (if published r then p else 0) = start).
      { destruct (published r); auto. simpl in Q. apply negb_false_iff, Nat.eqb_eq in Q. lia. }
      rewrite E, W. cbn [andb]. rewrite Nat.add_0_l.
      specialize (IH (S i) start t ran begun ltac:(lia) ltac:(lia) T').
      set (n := fst (look l (S i) start t ran begun)) in *.
      destruct (Nat.le_gt_cases n i) as [L|L].
      * replace (n - i) with 0 by lia. replace (n - S i) with 0 in IH by lia. simpl in *. auto.
      * replace (n - i) with (S (n - S i)) by lia. rewrite two_cons, E. auto.
Qed.

(* A true number is never doubted, if the count is true. *)
Theorem a_true_number_is_believed l c base d t :
  let x := ((base + Z.of_nat t) mod psns)%Z in
  recalled c = false -> t <= total l -> (Z.of_nat (total l) < psns)%Z -> (Z.of_nat (length l) < half)%Z ->
  (forall r p, In (r, p) l -> is_two r = true -> 0 < p) ->
  c_done c = (d mod range)%Z -> c_peer c = ((d + Z.of_nat (two_ran l 0 t)) mod range)%Z ->
  snd (sc_settle_exact l c (Some (behind x base))) = false.
Proof.
  intros x RC TT TP LL T CD CP. subst x. rewrite behind_wraps by lia.
  assert (TR : two_ran l 0 t <= length l).
  { rewrite <- (look_two l 0 0 t 0 0) by (auto; lia). unfold two_sided.
    eapply Nat.le_trans; [apply filter_le|]. rewrite firstn_length.
    eapply Nat.le_trans; [apply Nat.le_min_r|]. unfold reqs. rewrite map_length. auto. }
  assert (E : minus32 (c_peer c) (c_done c) = Z.of_nat (two_ran l 0 t)).
  { rewrite CD, CP. apply count_survives_the_wrap. unfold range, half in *. lia. }
  unfold sc_settle_exact. rewrite E. destruct (_ || _)%bool; auto.
  unfold exact_of. destruct (_ || _)%bool; [auto|].
  replace (Z.of_nat (total l) <? Z.of_nat t)%Z with false by (symmetry; apply Z.ltb_ge; lia).
  rewrite Nat2Z.id, RC. unfold contradicts.
  rewrite <- (look_two l 0 0 t 0 0) by (auto; lia). rewrite Nat.sub_0_r, Z.eqb_refl. cbn [negb orb].
  destruct (look l 0 0 t 0 0). auto.
Qed.
