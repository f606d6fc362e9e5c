(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Which patterns are safe: NCCL Simple, a stream of WRITEs and then a WRITE with immediate, into memory that later
   requests leave alone until the receiver gives it back. WRITEs may be executed twice; what the receiver finds in
   memory when a notification completes is what it would find had every request been executed once, in order. *)
From Coq Require Import Arith List Bool Lia.
From Shift Require Import Dir Invariant Steps Promises.
Import ListNotations.

Section Simple.
Variable kind_of : nat -> kind.
Variable fenced : nat -> bool.
Variable addr : nat -> nat.
Notation is_two := (is_two kind_of). Notation is_wr := (is_wr kind_of).
Notation here s := (car s (act s)).
Ltac kind n := pose proof (kinds kind_of n); destruct (kind_of n);
  repeat match goal with H : _ /\ _ |- _ => destruct H end.

(* The request whose bytes are at address a: the newest WRITE to it. *)
Definition at_addr a m := addr m =? a.
Definition holds (s : st) a : option nat := find (at_addr a) (wrs s).

(* An older one that was placed later will be followed by the younger one again. *)
Definition Fresh s := doubt s = false -> forall a M m, holds s a = Some M -> In m (wrs s) -> addr m = a ->
  m <= M \/ pl (here s) <= m.
Definition Known s := forall m, In m (wrs s) -> m < posted s.

Lemma fresh_step s l s' : Inv kind_of fenced s -> Fresh s -> Known s -> step kind_of fenced s l = Some s' ->
  Fresh s' /\ Known s'.
Proof.
  intros I F K H. unfold step in H.
  destruct l; try (destruct (heard s) as [m|] eqn:Hh; [|discriminate]); cbv zeta in H;
    try (apply guard_some in H as [G H]); try (injection H as H);
    try (subst s'; split; [exact F | exact K]); try (subst s'; split; [exact F | intros m0 M0;
    simpl; specialize (K m0 M0); lia]).
  - (* Ring *) subst s'. split; [|exact K]. unfold Fresh, holds. simpl. rewrite upd_same. exact F.
  - (* Answer *) subst s'. split; [|exact K]. unfold Fresh, holds. simpl. rewrite upd_same. exact F.
  - (* Settle *)
    apply andb_true_iff in G as [G MS]. apply andb_true_iff in G as [G RP].
    apply andb_true_iff in G as [G PP].
    apply andb_true_iff in G as [G RD]. apply andb_true_iff in G as [MV L].
    unfold may_settle in MS. cbv zeta in MS. apply andb_true_iff in MS as [MS _].
    apply andb_true_iff in MS as [MS _]. apply andb_true_iff in MS as [MS _].
    apply andb_true_iff in MS as [S1 S2].
    apply Nat.leb_le in S1, S2, RP, PP. apply Nat.ltb_lt in L.
    destruct (settle_facts kind_of fenced s m recall proof I Hh L RD PP RP S1 S2) as (_ & _ & _ & _ & _ & F6).
    set (v := settle kind_of fenced s m recall proof) in *. clearbody v.
    subst s'. split; [|exact K]. intros D a M q HM HI HA. cbn [doubt happens sends] in D.
    apply orb_false_iff in D as [D U]. destruct (F D a M q HM HI HA) as [|X]; auto. right.
    cbn [act car happens sends]. rewrite upd_same. cbn [pl].
    destruct (Nat.le_gt_cases (Nat.max (nb (here s)) (v_line v)) q) as [|Y]; auto.
    specialize (F6 U q Y (i_kinds _ _ s I q HI)). lia.
  - (* Exec *) boole. assert (e = act s) by (eapply live_is_act; eauto). subst e s'.
    split; [|exact K]. unfold Fresh, holds. simpl. rewrite upd_same. exact F.
  - (* Skip *) apply andb_true_iff in G as [G _]. apply andb_true_iff in G as [_ N]. subst s'. split; [|exact K].
    unfold Fresh, holds. simpl. rewrite upd_same. cbn [pl]. intros D a M q HM HI HA.
    destruct (F D a M q HM HI HA) as [|X]; auto. right.
    destruct (Nat.eqb_spec (pl (here s)) (ex (here s))) as [E|]; auto.
    assert (q <> pl (here s)); [|lia]. intros ->. pose proof (i_kinds _ _ s I _ HI) as W.
    rewrite E in W. apply nop_below in N; [pose proof (i_cp _ _ s I); lia|]. kind (ex (here s));
    congruence.
  - (* Place *) boole. assert (e = act s) by (eapply place_is_act; eauto). subst e s'.
    pose proof (i_ex _ _ s I). pose proof (i_hi _ _ s I).
    set (n := pl (here s)) in *. split.
    + unfold Fresh, holds. simpl. rewrite upd_same. cbn [pl]. fold n. intros D a M q HM HI HA.
      destruct (is_wr n) eqn:W.
      * simpl in HM. unfold at_addr at 1 in HM. destruct (Nat.eqb_spec (addr n) a) as [E|NE].
        -- inversion HM; subst. lia.
        -- destruct HI as [->|HI]; [congruence|]. destruct (F D a M q HM HI HA) as [|X]; auto.
           right.
           fold n in X. assert (q <> n) by congruence. lia.
      * destruct (F D a M q HM HI HA) as [|X]; auto. right. fold n in X.
        assert (q <> n); [|lia]. intros ->. pose proof (i_kinds _ _ s I _ HI). congruence.
    + intros q Q. simpl in Q |- *. destruct (is_wr n); [destruct Q as [<-|Q]; [lia|]|]; apply K;
      auto.
  - (* Comp *) boole. assert (e = act s) by (eapply comp_is_act; eauto). subst e s'.
    split; [|exact K]. unfold Fresh, holds. simpl. rewrite upd_same. exact F.
  - (* Final *) apply andb_true_iff in G as [G _]. apply andb_true_iff in G as [G1 G2].
    boole. destruct (i_fin _ _ s I G1) as [X _]. subst s'. split; [|exact K].
    unfold Fresh, holds. simpl. rewrite upd_other by lia. exact F.
Qed.

Lemma fresh_run ls : forall s s', Inv kind_of fenced s -> Fresh s -> Known s -> run kind_of fenced ls s = Some s' ->
  Fresh s' /\ Known s'.
Proof.
  induction ls as [|l ls IH]; simpl; intros s s' I F K H.
  - inversion H; subst; auto.
  - destruct (step kind_of fenced s l) as [t|] eqn:E; try discriminate.
    destruct (fresh_step s l t I F K E). apply (IH t s'); auto. eapply step_inv; eauto.
Qed.

(* The last WRITE to a that was posted before n. *)
Definition last_before a n M := M < n /\ is_wr M = true /\ addr M = a /\
  forall m, m < n -> is_wr m = true -> addr m = a -> m <= M.

(* When the receive of n completes: at each address that no later request writes to, memory is what it would be had
   every request before n been executed once, in order. *)
Theorem memory_at_notification s e s' n a : reachable kind_of fenced s -> step kind_of fenced s (Comp e) = Some s' ->
  n = cp (car s e) -> is_two n = true ->
  (forall m, n < m < posted s -> is_wr m = true -> addr m <> a) ->
  forall M, last_before a n M <-> holds s' a = Some M.
Proof.
  intros R H E T Q M. pose proof (reachable_inv _ _ s R) as I.
  assert (FK : Fresh s /\ Known s).
  { destruct R as [ls R]. apply (fresh_run ls init s); auto; [apply inv_init | |].
    - intros _ x y z X. discriminate.
    - intros x []. }
  destruct FK as [F K]. unfold step in H. cbv zeta in H. apply guard_some in H as [G H]. boole.
  assert (e = act s) by (eapply comp_is_act; eauto). subst e.
  assert (D : doubt s = false).
  { destruct (doubt s) eqn:D; auto. exfalso. pose proof (i_cp _ _ s I). pose proof (i_pl _ _ s I).
    pose proof (i_nb _ _ s I). pose proof (i_ex _ _ s I).
    destruct (i_doubt _ _ s I D n); [lia| |]; kind n; congruence. }
  assert (W : wrs s' = wrs s) by (subst s'; reflexivity). unfold holds. rewrite W.
  assert (B : forall m, is_wr m = true -> m < n -> In m (wrs s)).
  { intros m Wm L. apply (i_wrs _ _ s I); auto. lia. }
  assert (C : forall q, find (at_addr a) (wrs s) = Some q -> q < n /\ is_wr q = true /\ addr q = a).
  { intros q FQ. pose proof (find_some _ _ FQ) as [IQ AQ]. unfold at_addr in AQ.
    apply Nat.eqb_eq in AQ.
    pose proof (i_kinds _ _ s I q IQ) as WQ. split; auto. specialize (K q IQ).
    destruct (lt_eq_lt_dec q n) as [[?|X]|L]; auto; [subst q; kind n; congruence|].
    exfalso. exact (Q q ltac:(lia) WQ AQ). }
  split.
  - intros (L & WM & AM & MAX). pose proof (B M WM L) as IM.
    destruct (find (at_addr a) (wrs s)) as [q|] eqn:FQ.
    + destruct (C q eq_refl) as (LQ & WQ & AQ). f_equal. specialize (MAX q LQ WQ AQ).
      destruct (F D a q M FQ IM AM); lia.
    + exfalso. pose proof (find_none _ _ FQ M IM) as X. unfold at_addr in X.
      rewrite AM, Nat.eqb_refl in X. discriminate.
  - intros FQ. destruct (C M FQ) as (LM & WM & AM). repeat split; auto.
    intros m L Wm Am. destruct (F D a M m FQ (B m Wm L) Am); lia.
Qed.
End Simple.
