(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Every step of Dir.v keeps the invariant: one lemma for each label. *)
From Coq Require Import Arith List Bool Lia.
From Shift Require Import Dir Invariant.
Import ListNotations.

Section Steps.
Variable kind_of : nat -> kind.
Variable fenced : nat -> bool.
Notation is_two := (is_two kind_of). Notation is_wr := (is_wr kind_of). Notation is_rd := (is_rd kind_of).
Notation is_at := (is_at kind_of). Notation is_lc := (is_lc kind_of).
Notation rank := (rank kind_of). Notation twos := (twos kind_of). Notation nop := (nop kind_of).
Notation changes := (changes kind_of). Notation step := (step kind_of fenced).
Notation settle := (settle kind_of fenced). Notation Inv := (Inv kind_of fenced).
Notation here s := (car s (act s)).
Ltac kind n := pose proof (kinds kind_of n); destruct (kind_of n);
  repeat match goal with H : _ /\ _ |- _ => destruct H end.

(* ---- one label after the other ----------------------------------------------------------------- *)

Ltac start := let H := fresh "H" in intros I H; simpl in H; pose proof I as I0; destruct I;
  try (apply guard_some in H as [G H]; boole); try (injection H as H); subst.
Ltac old_msgs := match goal with
  | I : (forall e m, In (e, m) (msgs _) -> _), M : In (?e, ?m) (msgs _) |- _ =>
    let X := fresh in let Y := fresh in let Z := fresh in let L := fresh in
    destruct (I e m M) as (X & Y & Z); split; [lia|]; split; [assumption|];
    intros L; rewrite ?upd_other by lia; try (exfalso; lia); destruct (Z L) as (? & ? & ?);
    repeat split; auto
  end.
Ltac plain := constructor; unfold front in *; simpl in *; auto; try lia; try discriminate.

Lemma inv_post s s' : Inv s -> step s Post = Some s' -> Inv s'.
Proof. start. plain. Qed.
Lemma inv_ack s s' : Inv s -> step s Ack = Some s' -> Inv s'.
Proof. start. plain. Qed.
Lemma inv_see s s' : Inv s -> step s See = Some s' -> Inv s'.
Proof. start. plain. Qed.
Lemma inv_leave s s' e : Inv s -> step s (Leave e) = Some s' -> Inv s'.
Proof. start. plain. intros x X. specialize (i_quiet x X). lia. Qed.
Lemma inv_quiesce s s' : Inv s -> step s Quiesce = Some s' -> Inv s'.
Proof. start. plain. intros e [?|?]; subst; auto. Qed.
Lemma inv_hear s s' m : Inv s -> step s (Hear m) = Some s' -> Inv s'.
Proof.
  start. plain. intros k E. inversion E; subst. split; auto.
  match goal with X : existsb _ _ = true |- _ => apply existsb_exists in X as ([e [a b c]] & M & Q) end. destruct k. simpl in *. boole. subst. auto.
Qed.

Ltac here_changes := constructor; unfold front, set_car, Dir.nop in *; simpl in *; rewrite ?upd_same; simpl;
  intros; rewrite ?upd_other by lia; auto; try lia; eauto 3.

Lemma inv_ring s s' : Inv s -> step s Ring = Some s' -> Inv s'.
Proof.
  start. here_changes.
  - destruct (Nat.eq_dec n (hi (here s))) as [->|]; [|apply i_doubt; auto; lia].
    match goal with X : _ \/ is_lc _ = true, D : doubt s = true |- _ =>
      rewrite D in X; simpl in X; tauto end.
  - match goal with X : In _ (exd s) |- _ => specialize (i_exd _ X) end. lia.
  - old_msgs.
Qed.

Lemma in_if {A} (b : bool) (x n : A) l : In n l -> In n (if b then x :: l else l).
Proof. destruct b; simpl; auto. Qed.

Lemma inv_answer s s' : Inv s -> step s Answer = Some s' -> Inv s'.
Proof.
  start. here_changes.
  - destruct (Nat.eq_dec n (una (here s))) as [->|]; [|apply in_if, i_got; auto; lia].
    match goal with X : is_rd _ = true |- _ => rewrite X; simpl end.
    match goal with |- In _ (if negb ?b then _ else _) => destruct b eqn:E end; simpl; auto.
  - apply in_if. eauto.
  - apply in_if. eauto.
  - old_msgs.
Qed.

Lemma open_got s m n : Inv s -> m = ex (here s) -> fence_open kind_of fenced (here s) m = true -> fenced m = true ->
  n < m -> is_rd n = true -> In n (got s).
Proof.
  intros I E O F L R. unfold fence_open in O. rewrite F in O. simpl in O.
  destruct (Nat.lt_ge_cases n (una (here s))); [apply (i_got _ _ s I); auto|].
  rewrite forall_upto in O. specialize (O n ltac:(lia)). rewrite R in O. simpl in O.
  apply (i_gotn _ _ s I); auto.
Qed.

Lemma inv_skip s s' : Inv s -> step s Skip = Some s' -> Inv s'.
Proof.
  start. set (n := ex (here s)) in *.
  assert (NB : nb (here s) <= n -> is_lc n = true).
  { intros L. destruct (is_lc n) eqn:E; auto. exfalso.
    match goal with X : nop _ n = true |- _ => apply nop_below in X; auto end. lia. }
  assert (LC : forall q, q = n -> nb (here s) <= q -> is_two q = false /\ is_wr q = false /\ is_rd q = false /\ is_at q = false).
  { intros q -> L. specialize (NB L). kind n; try congruence; auto. }
  assert (PL : (if pl (here s) =? n then S n else pl (here s)) < S n -> pl (here s) < n).
  { destruct (Nat.eqb_spec (pl (here s)) n); lia. }
  assert (GF : forall m q, m = n -> fenced m = true -> q < m -> is_rd q = true -> In q (got s)).
  { intros. subst m. eapply open_got; eauto. }
  constructor; unfold front, set_car, Dir.nop in *; simpl in *; rewrite ?upd_same; simpl; fold n;
    fold n in i_una, i_flush, i_lost; intros; rewrite ?upd_other by lia; auto; try lia; eauto 3.
  - destruct (Nat.eqb_spec (pl (here s)) n), (Nat.eqb_spec (cp (here s)) n); lia.
  - destruct (Nat.eqb_spec (pl (here s)) n); lia.
  - destruct (Nat.eqb_spec (cp (here s)) n); [lia|].
    specialize (i_flush ltac:(assumption) ltac:(assumption)). lia.
  - destruct (Nat.eqb_spec (cp (here s)) n) as [E|]; auto.
    destruct (LC (cp (here s)) E) as (T & _); [lia|]. rewrite E in T. simpl. rewrite T, app_nil_r.
    congruence.
  - apply i_wrs; auto. destruct (Nat.eqb_spec (pl (here s)) n) as [E|]; auto.
    destruct (Nat.eq_dec n0 n) as [->|]; [|lia].
    destruct (LC n eq_refl) as (_ & W & _); [lia|]. congruence.
  - rewrite i_ats. split; intros [X Y]; split; auto; [lia|].
    destruct (Nat.eq_dec n0 n) as [->|]; [|lia].
    destruct (Nat.lt_ge_cases n (nb (here s))); [lia|]. destruct (LC n eq_refl) as (_ & _ & _ & W);
    [lia|]. congruence.
  - apply (i_age n0 m k); auto; lia.
  - destruct (Nat.eq_dec m n) as [E|]; [eapply (GF m); eauto | apply (i_gotf m); auto; lia].
  - destruct (Nat.eq_dec n0 n) as [->|].
    + destruct (LC n eq_refl) as (_ & _ & R & A); [lia|].
      match goal with X : is_rd _ = true \/ _ |- _ => destruct X; congruence end.
    + specialize (i_rd n0 ltac:(lia) ltac:(assumption)). destruct (pl (here s) =? n) eqn:E; boole;
      lia.
  - old_msgs.
Qed.

Lemma inv_exec s s' e : Inv s -> step s (Exec e) = Some s' -> Inv s'.
Proof.
  start. match goal with X : dead_at _ _ = false |- _ => rename X into D end.
  assert (e = act s) by (eapply live_is_act; eauto). subst e.
  assert (SL : seal s = act s) by (eapply live_unsealed; eauto).
  set (n := ex (here s)) in *.
  match goal with X : nop _ n = false |- _ => rename X into NN end.
  assert (NB : is_rd n = false -> nb (here s) <= n).
  { intros R. unfold Dir.nop in NN. apply orb_false_iff in NN as [_ NN].
    apply andb_false_iff in NN as [X|X]; boole; auto. apply mem_in, i_again in X. congruence. }
  assert (NF : is_well s (act s) = true -> rerr s <= act s).
  { intros W. unfold dead_at in D. rewrite W, andb_true_r in D. apply orb_false_iff in D as [D _].
    apply orb_false_iff in D as [_ D]. boole. auto. }
  assert (GF : forall m q, m = n -> fenced m = true -> q < m -> is_rd q = true -> In q (got s)).
  { intros. subst m. eapply open_got; eauto. }
  constructor; unfold front, Dir.nop in *; simpl in *; rewrite ?upd_same; simpl; fold n;
  fold n in i_una, i_exd;
    intros; rewrite ?upd_other by lia; auto; try lia; eauto 3.
  - specialize (NF ltac:(assumption)). lia.
  - destruct (is_at n) eqn:A.
    + simpl. rewrite i_ats. fold n. split.
      * intros [<-|[X Y]]; split; auto; lia.
      * intros [X Y]. destruct (Nat.eq_dec n0 n); auto. right. split; auto; lia.
    + rewrite i_ats. fold n. split; intros [X Y]; split; auto; [lia|].
      destruct (Nat.eq_dec n0 n) as [->|]; [congruence|lia].
  - destruct (is_at n) eqn:A; auto. constructor; auto. rewrite i_ats. fold n. intros [X _].
    assert (is_rd n = false) by (kind n; congruence). specialize (NB ltac:(assumption)). lia.
  - match goal with X : _ \/ In _ (exd s) |- _ => destruct X as [X|X]; [lia|auto] end.
  - intros [X|X]; [lia|]. revert X. apply (i_age n0 m k); auto; lia.
  - destruct (Nat.eq_dec m n) as [E|]; [eapply (GF m); eauto | apply (i_gotf m); auto; lia].
  - destruct (Nat.eq_dec n0 n) as [->|]; [|apply i_rd; auto; fold n; lia].
    match goal with X : _ \/ (n <=? _) = true |- _ => destruct X as [X|X]; boole; auto end.
    match goal with X : is_rd _ = true \/ _ |- _ => destruct X; congruence end.
  - old_msgs.
Qed.

Lemma inv_place s s' e : Inv s -> step s (Place e) = Some s' -> Inv s'.
Proof.
  start. assert (e = act s) by (eapply place_is_act; eauto). subst e.
  here_changes.
  - destruct (Nat.eq_dec n (pl (here s))) as [->|].
    + match goal with X : is_wr _ = true |- _ => rewrite X end. left; auto.
    + apply in_if, i_wrs; auto. lia.
  - apply in_if. eauto.
  - match goal with X : In _ (if ?b then _ else _) |- _ => destruct b eqn:W; auto; destruct X;
    subst; auto end.
  - old_msgs.
Qed.

Lemma inv_comp s s' e : Inv s -> step s (Comp e) = Some s' -> Inv s'.
Proof.
  start. assert (e = act s) by (eapply comp_is_act; eauto). subst e.
  set (n := cp (here s)) in *.
  assert (ND : is_two n = true -> doubt s = false).
  { intros T. destruct (doubt s) eqn:Q; auto. exfalso.
    destruct (i_doubt eq_refl n); [fold n in i_cp; lia| |]; kind n; congruence. }
  constructor; unfold front, Dir.nop in *; simpl in *; rewrite ?upd_same; simpl; fold n;
  fold n in i_cp;
    intros; rewrite ?upd_other by lia; auto; try lia; eauto 3.
  - destruct (is_two n) eqn:T; rewrite ?app_nil_r.
    + rewrite map_app, i_log. auto.
    + auto.
  - destruct (is_two n) eqn:T; eauto.
    destruct (Nat.lt_ge_cases i (length (log s))).
    + rewrite nth_error_app1 in * by auto. eauto.
    + match goal with X : nth_error (_ ++ _) _ = _ |- _ => rewrite nth_error_app2 in X by auto;
        destruct (i - length (log s)) as [|k] eqn:Q; simpl in X;
        [inversion X; subst; lia | destruct k; discriminate] end.
  - destruct (is_two n); rewrite ?app_length; simpl; lia.
  - destruct (is_two n) eqn:T; eauto. 
    match goal with X : In _ (_ ++ _) |- _ => apply in_app_iff in X as [X|[X|[]]]; eauto;
    inversion X; subst end.
    apply i_wrs; auto. lia.
  - old_msgs.
Qed.

Ltac healths := unfold settled, is_well, is_sick, is_lost in *; simpl in *.
Ltac receiver := constructor; unfold front in *; simpl in *; intros; auto; try lia; try discriminate; eauto 3.

Lemma settled_grows s s' e : settled s e = true -> well s' e = well s e -> rerr s <= rerr s' -> gone s <= gone s' ->
  settled s' e = true.
Proof.
  healths. intros H W R G. rewrite W. destruct (well s e); simpl in *.
  - rewrite andb_true_r, !orb_false_r in H |- *. boole. apply Nat.ltb_lt. lia.
  - rewrite andb_false_r, !orb_false_r in H |- *. simpl in *. boole. apply Nat.ltb_lt. lia.
  - rewrite !orb_true_r. auto.
Qed.

Lemma inv_rhang s s' e : Inv s -> step s (RHang e) = Some s' -> Inv s'.
Proof.
  start. receiver.
  - destruct (i_sealed e0) as [A B]; auto. split.
    + eapply settled_grows; eauto. simpl. rewrite upd_other; auto. lia.
    + healths. rewrite upd_other by lia. auto.
  - healths. rewrite upd_other in * by lia. auto.
  - destruct (i_msgs e0 m) as (A & B & C); auto. split; auto. split; auto.
    intros x X. healths. rewrite upd_other by lia. auto.
Qed.
Lemma inv_rlose s s' e : Inv s -> step s (RLose e) = Some s' -> Inv s'.
Proof.
  start. receiver.
  - destruct (i_sealed e0) as [A B]; auto. split.
    + eapply settled_grows; eauto. simpl. rewrite upd_other; auto. lia.
    + healths. rewrite upd_other by lia. auto.
  - healths. destruct (Nat.eq_dec (act s) e) as [<-|]; [rewrite upd_same in *; discriminate|].
    rewrite upd_other in * by lia. auto.
  - destruct (i_msgs e0 m) as (A & B & C); auto. split; auto. split; auto.
    intros x X. healths. rewrite upd_other by lia. auto.
Qed.
Lemma inv_rheal s s' e : Inv s -> step s (RHeal e) = Some s' -> Inv s'.
Proof.
  start. receiver.
  - destruct (i_sealed e0) as [A B]; auto. split.
    + eapply settled_grows; eauto. simpl. rewrite upd_other; auto. lia.
    + healths. rewrite upd_other by lia. auto.
  - healths. destruct (Nat.eq_dec (act s) e) as [<-|]; [|rewrite upd_other in * by lia; auto].
    match goal with X : _ \/ _ |- _ => destruct X as [X|X]; boole; lia end.
  - destruct (i_msgs e0 m) as (A & B & C); auto. split; auto. split; auto.
    intros x X. healths. rewrite upd_other by lia. auto.
Qed.
Lemma inv_rleave s s' e : Inv s -> step s (RLeave e) = Some s' -> Inv s'.
Proof.
  start. receiver. split; [lia|]. intros x m M. destruct (i_msgs x m M). lia.
Qed.
Lemma inv_rquiesce s s' : Inv s -> step s RQuiesce = Some s' -> Inv s'.
Proof.
  start. rewrite forall_upto in G. receiver.
  - destruct (i_sealed e) as [A B]; auto. split; auto. eapply settled_grows; eauto; simpl; lia.
  - change (is_well s (act s) = true) in H0.
    destruct (Nat.lt_ge_cases (act s) (rerr s)); auto.
    destruct (Nat.lt_ge_cases (act s) (seal s)) as [L|L].
    + destruct (i_sealed _ L) as [A _]. healths. destruct (well s (act s)); try discriminate.
      simpl in A. rewrite andb_true_r, !orb_false_r in A. boole. lia.
    + specialize (G (act s) ltac:(lia)). rewrite H0 in G. simpl in G. boole. auto.
Qed.
Lemma inv_rlifetime s s' : Inv s -> step s RLifetime = Some s' -> Inv s'.
Proof.
  start. apply existsb_exists in G as (q & Q1 & Q2). boole. subst q. pose proof (i_quiet _ Q1).
  receiver.
  destruct (i_sealed e) as [A B]; auto. split; auto. eapply settled_grows; eauto; simpl; lia.
Qed.

Lemma inv_seal s s' d k : Inv s -> step s (Seal d k) = Some s' -> Inv s'.
Proof.
  start. match goal with X : forallb (settled s) _ = true |- _ => rewrite forall_upto in X;
  rename X into ST end.
  match goal with X : forallb _ _ = true |- _ => rewrite forall_upto in X; rename X into TD end.
  assert (DD : forall x, x < rep s -> is_well s x = false -> x < (if d then rep s else rdead s)).
  { intros x X W. destruct d; auto. destruct (Nat.lt_ge_cases x (seal s)).
    - apply i_sealed; auto.
    - specialize (TD x ltac:(lia)). rewrite W in TD. discriminate. }
  assert (KK : act s < rep s -> pl (here s) < ex (here s) -> act s < (if k then rep s else rcut s)).
  { intros F3 X. destruct k; auto. destruct (Nat.lt_ge_cases (act s) (seal s)); auto.
    specialize (TD (act s) ltac:(lia)).
    apply andb_true_iff in TD as [_ TD]. apply orb_true_iff in TD as [Y|Y]; boole;
    [lia|discriminate]. }
  constructor; unfold front in *; simpl in *; intros; auto; try lia; try discriminate; eauto 3.
  - split; [apply ST; lia|]. auto.
  - destruct (i_msgs e m) as (X & Y & Z); auto. split; [lia|]. auto.
Qed.

Lemma inv_final s s' : Inv s -> step s Final = Some s' -> Inv s'.
Proof.
  start. destruct (i_fin ltac:(assumption)) as [F1 F2].
  assert (F3 : act s < rep s) by lia.
  assert (K : forall v, upd (car s) (rep s) v (act s) = here s) by (intros; apply upd_other; lia).
  constructor; unfold front in *; simpl in *; rewrite ?K; intros; auto; try lia; try discriminate; eauto 3.
  - destruct (Nat.eq_dec e (rep s)) as [->|]; [rewrite upd_same | rewrite upd_other by auto];
    simpl; auto.
  - match goal with X : _ = _ \/ In _ (msgs s) |- _ => destruct X as [E|IM] end.
    + inversion E; subst. simpl. split; [lia|]. split.
      * intros x X W. apply (i_sealed x); [lia | exact W].
      * intros V. rewrite upd_same. simpl. split; auto. split; auto. intros X. apply i_lost; auto.
        lia.
    + specialize (F2 _ _ IM). destruct (i_msgs _ _ IM) as (Y & Z & W). split; [lia|]. split; auto.
      intros V. rewrite upd_other by lia. auto.
  - destruct (i_heard _ ltac:(eassumption)). auto.
Qed.

(* ---- settling ---------------------------------------------------------------------------------- *)

Lemma settle_facts s m r p : Inv s -> heard s = Some m -> act s < sep s ->
  (r || negb (act s <? dead m)) = true -> p <= pl (here s) -> rank p <= count m ->
  rank (v_from (settle s m r p)) <= count m -> count m <= rank (hi (here s)) ->
  let v := settle s m r p in let o := here s in let b := Nat.max (nb o) (v_line v) in
  count m = rank (cp o) /\ rank b = count m /\
  (seen s <= v_from v <= done s /\ lo o <= v_from v) /\ v_from v <= v_done v <= v_line v /\
  v_line v <= Nat.max (nb o) (ex o) /\
  (v_unplaced v = false -> forall n, n < b -> is_wr n = true -> n < pl o).
Proof.
  intros I Hh L RD P RP R1 R2 v o b.
  destruct (i_heard _ _ s I m Hh) as [_ M]. destruct (i_msgs _ _ s I _ _ M) as (M1 & M2 & M3).
  destruct (M3 L) as (M4 & _ & M6). fold o in M6.
  assert (C : count m = rank (cp o)) by (rewrite <- M4; apply (log_rank kind_of fenced); auto).
  pose proof (i_done _ _ s I) as I1. pose proof (i_una _ _ s I) as I2.
  pose proof (i_ex _ _ s I) as I3.
  pose proof (i_seen _ _ s I) as I4. pose proof (i_lo _ _ s I) as I5.
  pose proof (i_lonb _ _ s I) as I6.
  pose proof (i_cp _ _ s I) as I7. pose proof (i_pl _ _ s I) as I8. pose proof (i_rd _ _ s I) as I9.
  fold o in I1, I2, I3, I5, I6, I7, I8, I9, P, R2.
  set (a := v_from v).
  assert (A : (seen s <= a <= done s) /\ lo o <= a).
  { unfold a, v, Dir.settle. simpl. fold o. destruct r; lia. }
  change (rank a <= count m) in R1.
  set (r0 := region kind_of (count m) a (hi o - a)).
  assert (B0 : rank r0 = count m).
  { apply region_rank; auto. replace (a + (hi o - a)) with (hi o) by lia. auto. }
  assert (B1 : a <= r0) by apply region_ge.
  assert (B2 : r0 <= Nat.max (cp o) a).
  { apply region_least; [lia|]. rewrite C. apply rank_mono. lia. }
  set (b1 := answered kind_of o (act s <? cut m) (done s) r0 r0 (hi o - r0)).
  destruct (answered_spec kind_of o (act s <? cut m) (done s) (hi o - r0) r0 r0) as (D1 & D2 & D3);
  auto.
  fold b1 in D1, D2, D3.
  assert (VL : v_line v = Nat.max b1 p) by reflexivity.
  assert (RL : rank (v_line v) = count m).
  { rewrite VL. destruct (Nat.max_spec b1 p) as [[X ->]|[X ->]]; [|congruence].
    pose proof (rank_mono kind_of b1 p). lia. }
  destruct (leading_spec (v_again v) (v_line v) (v_line v - a) a) as [LD _]; [lia|].
  change (leading (v_again v) (v_line v) a (v_line v - a)) with (v_done v) in LD.
  assert (LE : v_line v <= Nat.max (nb o) (ex o)).
  { rewrite VL. destruct D3 as [->|(q & -> & Q & _)]; lia. }
  split; [auto|]. split.
  { unfold b. destruct (Nat.max_spec (nb o) (v_line v)) as [[X ->]|[X ->]]; auto.
    pose proof (rank_mono kind_of (nb o) (cp o)). pose proof (rank_mono kind_of (v_line v) (nb o)).
    lia. }
  split; [auto|]. split; [auto|]. split; [auto|].
  intros UN n Ln W.
  destruct (Nat.lt_ge_cases n (nb o)); [lia|]. destruct (Nat.lt_ge_cases n p); [lia|].
  assert (Lb : n < b1) by (unfold b in Ln; lia). clear Ln.
  destruct D3 as [D3|(q & D3 & Q & NQ & K)].
  2: { destruct (Nat.lt_ge_cases q (nb o)); [lia|]. destruct K as [K|[K K']].
       - specialize (I9 q ltac:(lia) ltac:(auto)). assert (n <> q) by (intros ->; kind q;
         congruence). lia.
       - boole. destruct (Nat.lt_ge_cases (pl o) (ex o)) as [X|X]; [specialize (M6 X)|]; lia. }
  destruct (Nat.lt_ge_cases n (cp o)); [lia|].
  assert (EA : b1 = a) by lia.
  destruct (Nat.lt_ge_cases a p); [lia|].
  assert (EL : v_line v = a) by lia.
  assert (UN' : r && (act s <? cut m) && (v_line v =? a) && seen_unplaced kind_of o a (a - lo o) = false)
    by exact UN.
  rewrite EL, Nat.eqb_refl, andb_true_r in UN'. clearbody b1 r0 a b v.
  destruct r.
  - destruct (act s <? cut m) eqn:CU; simpl in UN'.
    + destruct (seen_spec kind_of o (a - lo o) a) as (q & Q1 & Q2 & Q3); [lia|auto|].
      destruct (Nat.lt_ge_cases n q) as [X|X].
      * destruct Q3 as [Q3|(j & Q3 & NJ & W1 & W2)]; [lia|].
        assert (NL : is_lc j = false) by (destruct (is_lc j) eqn:E; auto; rewrite nop_lc in NJ;
        congruence).
        assert (K : is_two j = true \/ is_rd j = true) by (kind j; auto; congruence).
        destruct K as [K|K].
        -- assert (RJ : rank (S j) = S (rank j)) by (simpl; rewrite K; simpl; lia).
           pose proof (rank_mono kind_of (S j) a ltac:(lia)).
           destruct (Nat.lt_ge_cases j (cp o)) as [Y|Y]; [lia|].
           pose proof (rank_mono kind_of (cp o) j Y). lia.
        -- assert (n <> j) by (intros ->; kind j; congruence).
           destruct (Nat.lt_ge_cases j (nb o)); [lia|].
           specialize (I9 j ltac:(lia) ltac:(auto)). lia.
      * specialize (Q2 n ltac:(lia)). apply nop_below in Q2; [lia|]. kind n; congruence.
    + boole. destruct (Nat.lt_ge_cases (pl o) (ex o)) as [X|X]; [specialize (M6 X)|]; lia.
  - simpl in RD. boole.
    assert (WL : is_well s (act s) = true).
    { destruct (is_well s (act s)) eqn:E; auto. specialize (M2 _ L E). lia. }
    destruct (i_sealed _ _ s I (act s)) as [ST _]; [lia|].
    assert (RE : act s < rerr s).
    { unfold settled, is_well, is_sick, is_lost in *. destruct (well s (act s)); try discriminate.
      simpl in ST. rewrite andb_true_r, !orb_false_r in ST. boole. auto. }
    pose proof (i_flush _ _ s I RE WL) as X. fold o in X. lia.
Qed.

Lemma in_again s m r p n : let v := settle s m r p in let o := here s in
  In n (v_again v) <-> v_from v <= n < hi o /\ is_rd n = true /\ nop o n = false /\
    (n < v_line v -> done s <= n /\ vouched fenced (v_line v) n = false).
Proof.
  intros v o. change (v_again v) with (reads_again kind_of fenced o (v_from v) (v_line v) (done s) (hi o)).
  unfold reads_again. rewrite filter_In, in_upto. split.
  - intros [A B]. apply andb_true_iff in B as [B B0]. apply andb_true_iff in B as [B B1].
    apply negb_true_iff in B0, B1. apply andb_false_iff in B0.
    split; [auto|]. split; [auto|]. split; [auto|]. intros X.
    destruct B0 as [Y|Y]; [boole; lia|]. apply orb_false_iff in Y as [Y1 Y2]. boole. auto.
  - intros (A & B & C & D). split; auto. rewrite B, C.
    change (negb ((n <? v_line v) && ((n <? done s) || vouched fenced (v_line v) n)) = true).
    apply negb_true_iff, andb_false_iff.
    destruct (Nat.ltb_spec n (v_line v)) as [X|X]; auto. right.
    destruct (D X) as [E F]. rewrite F, orb_false_r. apply Nat.ltb_ge. auto.
Qed.

Lemma vouched_spec b n : vouched fenced b n = true <-> exists m, n < m < b /\ fenced m = true.
Proof.
  unfold vouched. rewrite existsb_exists. split.
  - intros (m & A & B). apply in_upto in A. exists m. split; [lia|auto].
  - intros (m & A & B). exists m. split; auto. apply in_upto. lia.
Qed.

Lemma fenced_read_spec c b h rd n m k : fenced_read kind_of fenced c b h rd = false -> In n rd -> n < m ->
  fenced m = true -> m <= k < h -> b <= k -> changes k = true -> nop c k = true.
Proof.
  intros H A B C D E F. destruct (nop c k) eqn:N; auto. exfalso.
  assert (X : fenced_read kind_of fenced c b h rd = true); [|congruence].
  unfold fenced_read. apply existsb_exists. exists n. split; auto.
  apply existsb_exists. exists m. split; [apply in_upto; lia|]. rewrite C. simpl.
  apply existsb_exists. exists k. split; [apply in_upto; lia|]. rewrite F, N. simpl.
  rewrite andb_true_r, andb_true_r. apply Nat.leb_le. auto.
Qed.

Lemma changes_lc k : changes k = true -> is_lc k = false.
Proof.
  unfold Dir.changes. intros H. kind k; auto.
  repeat match goal with X : _ = false |- _ => rewrite X in H; clear X end. discriminate.
Qed.

Lemma inv_settle s s' r p : Inv s -> step s (Settle r p) = Some s' -> Inv s'.
Proof.
  intros I H. unfold Dir.step in H. destruct (heard s) as [m|] eqn:Hh; try discriminate.
  cbv zeta in H. apply guard_some in H as [G H].
  apply andb_true_iff in G as [G MS]. apply andb_true_iff in G as [G RP].
  apply andb_true_iff in G as [G PP].
  apply andb_true_iff in G as [G RD]. apply andb_true_iff in G as [MV L].
  unfold may_settle in MS. cbv zeta in MS. set (v := settle s m r p) in *.
  apply andb_true_iff in MS as [MS S5]. apply andb_true_iff in MS as [MS S4].
  apply andb_true_iff in MS as [MS S3]. apply andb_true_iff in MS as [S1 S2].
  apply Nat.leb_le in S1, S2, RP, PP. apply Nat.ltb_lt in L. apply negb_true_iff in S4.
  rewrite forall_upto in S3.
  destruct (settle_facts s m r p I Hh L RD PP RP S1 S2) as (F1 & F2 & (F3 & F3') & F4 & F5 & F6).
  fold v in F2, F3, F3', F4, F5, F6. set (b := Nat.max (nb (here s)) (v_line v)) in *.
  destruct (i_heard _ _ s I m Hh) as [_ M]. destruct (i_msgs _ _ s I _ _ M) as (M1 & M2 & M3).
  destruct (M3 L) as (M4 & M5 & M6).
  pose proof (fun n => in_again s m r p n) as AG. cbv zeta in AG. fold v in AG.
  destruct (leading_spec (v_again v) (v_line v) (v_line v - v_from v) (v_from v)) as [_ LD]; [lia|].
  change (leading (v_again v) (v_line v) (v_from v) (v_line v - v_from v)) with (v_done v) in LD.
  clearbody v. destruct I.
  assert (BH : b <= hi (here s)) by (unfold b; lia).
  set (c' := Car (v_done v) b (hi (here s)) (v_done v) (v_done v) b b (head (car s (sep s))) (v_again v)) in *.
  assert (NP : forall n, nop c' n = is_lc n || ((n <? b) && negb (mem n (v_again v)))) by reflexivity.
  assert (C1 : lo c' = v_done v) by reflexivity. assert (C2 : nb c' = b) by reflexivity.
  assert (C3 : hi c' = hi (here s)) by reflexivity. assert (C4 : ex c' = v_done v) by reflexivity.
  assert (C5 : una c' = v_done v) by reflexivity. assert (C6 : pl c' = b) by reflexivity.
  assert (C7 : cp c' = b) by reflexivity.
  assert (C8 : head c' = head (car s (sep s))) by reflexivity.
  assert (C9 : again c' = v_again v) by reflexivity. clearbody c'.
  assert (NA : forall n, nop (here s) n = true -> mem n (v_again v) = false).
  { intros n X. destruct (mem n (v_again v)) eqn:E; auto. apply mem_in, AG in E.
    destruct E as (_ & _ & E & _). congruence. }
  assert (NO : forall n, nop (here s) n = true -> nop c' n = true).
  { intros n X. rewrite NP, (NA n X), andb_true_r. destruct (is_lc n) eqn:E; [reflexivity|]. simpl.
    apply nop_below in X; auto. apply Nat.ltb_lt. unfold b. lia. }
  (* a READ that does not run again has its data *)
  assert (NR : forall n, is_rd n = true -> n < b -> mem n (v_again v) = false -> In n (got s)).
  { intros n R B NM. destruct (Nat.lt_ge_cases n (done s)); [apply i_got; auto; lia|].
    destruct (nop (here s) n) eqn:E; [apply i_gotn; auto|].
    destruct (vouched fenced (v_line v) n) eqn:V.
    - apply vouched_spec in V as (q & Q & FQ). apply (i_gotf q n); auto; [|lia]. unfold front. lia.
    - exfalso. assert (In n (v_again v)) as X; [|apply mem_in in X; congruence].
      apply AG. repeat split; auto; lia. }
  assert (NN : forall n, is_rd n = true -> nop c' n = true -> In n (got s)).
  { intros n R X. rewrite NP in X. assert (is_lc n = false) as LC by (kind n; congruence).
    rewrite LC in X. simpl in X. boole. apply NR; auto. }
  assert (IA : forall n, v_done v <= n < hi (here s) -> is_rd n = true -> nop c' n = false ->
                         n < v_line v -> vouched fenced (v_line v) n = false).
  { intros n X R E Y. destruct (mem n (v_again v)) eqn:Z.
    - apply mem_in, AG in Z. destruct Z as (_ & _ & _ & Z). apply Z. auto.
    - exfalso. rewrite NP, Z, andb_true_r in E. apply orb_false_iff in E as [_ E]. boole.
      unfold b in E. lia. }
  subst s'. constructor; unfold front; simpl; rewrite ?upd_same; intros; auto; try lia.
  - rewrite upd_other by lia. apply i_fresh. lia.
  - rewrite C9 in *. apply AG in H. tauto.
  - apply i_sealed. auto.
  - rewrite C7, i_log. destruct (Nat.le_ge_cases b (cp (here s))).
    + symmetry. apply twos_flat; auto. congruence.
    + apply twos_flat; auto. congruence.
  - apply (i_recv i n r0); auto.
  - apply orb_false_iff in H as [D U]. apply i_wrs; auto. apply F6; auto. lia.
  - apply (i_p3 n r0 m0); auto.
  - apply orb_true_iff in H as [D|U]; [apply i_doubt; auto; unfold b in *; lia|].
    rewrite U in S5. simpl in S5. rewrite forall_upto in S5. specialize (S5 n ltac:(unfold b in *;
    lia)).
    apply orb_true_iff in S5 as [X|X]; auto. right. destruct (is_lc n) eqn:E; auto.
    apply nop_below in X; auto. unfold b in *. lia.
  - rewrite i_ats, C2, C4. unfold front. split; intros [X Y]; split; auto; [|unfold b in *; lia].
    destruct (Nat.lt_ge_cases n (v_from v)); [lia|].
    destruct (Nat.lt_ge_cases n (nb (here s))); [unfold b; lia|].
    specialize (S3 n ltac:(lia)). rewrite Y in S3. simpl in S3. rewrite orb_false_r in S3.
    apply orb_true_iff in S3 as [Z|Z].
    + apply nop_below in Z; [lia|]. kind n; congruence.
    + boole. unfold b. lia.
  - rewrite C3. auto.
  - intros K. assert (NOF : nop (here s) n = false).
    { destruct (nop (here s) n) eqn:E; auto. rewrite (NO n E) in H1. discriminate. }
    pose proof (i_exd k K) as KH.
    assert (In n (v_again v)) as IN.
    { apply AG. split; [lia|]. split; auto. split; auto. intros X.
      pose proof (IA n ltac:(lia) H0 H1 X) as V.
      split; auto. destruct (Nat.lt_ge_cases n (done s)) as [Y|]; auto. exfalso.
      rewrite NP in H1. apply orb_false_iff in H1 as [_ H1]. apply andb_false_iff in H1 as [H1|H1];
      boole.
      - unfold b in H1. lia.
      - apply mem_in, AG in H1. destruct H1 as (_ & _ & _ & H1). destruct (H1 X). lia. }
    destruct (Nat.lt_ge_cases k (v_line v)) as [X|X].
    + assert (V : vouched fenced (v_line v) n = true) by (apply vouched_spec; exists m0; split;
      auto; lia).
      apply AG in IN. destruct IN as (_ & _ & _ & IN). destruct IN as [_ IN]; [lia|]. congruence.
    + pose proof (fenced_read_spec _ _ _ _ n m0 k S4 IN H2 H3 ltac:(lia) X H5) as Z.
      assert (is_lc k = false) as LC.
      { apply changes_lc. auto. }
      apply nop_below in Z; auto. pose proof (i_vouch n m0 ltac:(lia) H0 NOF H2 H3). lia.
  - rewrite C2. destruct (Nat.le_gt_cases b m0) as [|X]; auto. exfalso.
    assert (NOF : nop (here s) n = false).
    { destruct (nop (here s) n) eqn:E; auto. rewrite (NO n E) in H1. discriminate. }
    pose proof (i_vouch n m0 ltac:(lia) H0 NOF H2 H3).
    assert (Y : m0 < v_line v) by (unfold b in X; lia).
    assert (V : vouched fenced (v_line v) n = true) by (apply vouched_spec; exists m0; split; auto;
    lia).
    pose proof (IA n ltac:(lia) H0 H1 ltac:(lia)). congruence.
  - destruct (Nat.lt_ge_cases n (v_from v)); [apply i_got; auto; lia|].
    apply NR; auto; [unfold b; lia|]. destruct (mem n (v_again v)) eqn:Z; auto.
    rewrite (LD n ltac:(lia)) in Z. discriminate.
  - apply (i_gotf m0); auto. unfold front, b in *. lia.
  - destruct (i_msgs _ _ H) as (X & Y & Z). split; auto. split; auto. intros V.
    rewrite upd_other by lia.
    destruct (Z ltac:(lia)) as (A & B & _). repeat split; auto. lia.
  - destruct (i_fin H) as [X Y]. pose proof (Y _ _ M). split; auto; lia.
  - discriminate.
Qed.

Theorem step_inv s l s' : Inv s -> step s l = Some s' -> Inv s'.
Proof.
  intros I H. destruct l.
  all: [> eapply inv_post | eapply inv_ring | eapply inv_answer | eapply inv_ack | eapply inv_see
       | eapply inv_leave | eapply inv_quiesce | eapply inv_hear | eapply inv_settle
       | eapply inv_exec | eapply inv_skip | eapply inv_place | eapply inv_comp
       | eapply inv_rhang | eapply inv_rlose | eapply inv_rheal
       | eapply inv_rleave | eapply inv_rquiesce | eapply inv_rlifetime | eapply inv_seal | eapply inv_final ]; eassumption.
Qed.

Theorem run_inv ls : forall s s', Inv s -> run kind_of fenced ls s = Some s' -> Inv s'.
Proof.
  induction ls; simpl; intros s s' I H.
  - inversion H; subst; auto.
  - destruct (Dir.step kind_of fenced s a) as [s0|] eqn:E; try discriminate.
    apply (IHls s0); auto. eapply step_inv; eauto.
Qed.

Theorem reachable_inv s : reachable kind_of fenced s -> Inv s.
Proof. intros [ls H]. eapply run_inv; eauto. apply inv_init. Qed.
End Steps.
