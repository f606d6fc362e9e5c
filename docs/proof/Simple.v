(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Which patterns are safe: NCCL Simple, a stream of WRITEs and then a WRITE with immediate. WRITEs may be
   executed twice; what the receiver finds in memory when a notification completes is what it would find had
   every request been executed once, in order. *)
From Coq Require Import Arith List Bool Lia.
From Shift Require Import Dir.
Import ListNotations.

Section Simple.
Variable kind_of : nat -> kind.
Variable addr : nat -> nat.

(* The request whose bytes are at address a: the newest executed WRITE to it. *)
Definition at_addr a m := addr m =? a.
Definition holds (s : st) a : option nat := find (at_addr a) (wrs s).

(* An older one that was executed later will be followed by the younger one again. *)
Definition Fresh s := forall a M m, holds s a = Some M -> In m (wrs s) -> addr m = a ->
  m <= M \/ front s <= m.
Definition Kinds s := forall m, In m (wrs s) -> kind_of m = Wr.
(* No notification lies between what is received and a WRITE that was executed. *)
Definition Near s := forall m, In m (wrs s) -> rank kind_of m <= rank kind_of (front s).

Lemma inv2 ls : forall s s', Inv kind_of s -> Fresh s -> Kinds s -> run kind_of ls s = Some s' ->
  Near s -> Fresh s' /\ Kinds s' /\ Near s'.
Proof.
  induction ls as [|l ls IH]; simpl; intros s s' I F K H N.
  - inversion H; subst; auto.
  - destruct (step kind_of s l) as [t|] eqn:E; try discriminate.
    assert (I' := step_inv _ _ _ _ I E). apply (IH t s'); auto; clear IH H; [clear N | clear F N | clear F].
    + destruct l; simpl in E;
      try (repeat match goal with X : guard _ _ = Some _ |- _ => apply guard_some in X as [_ X]
           | X : Some _ = Some _ |- _ => inversion X; subst; clear X
           | X : _ = t |- _ => subst t end; exact F).
      * (* Ring *) apply guard_some in E as [_ E]; subst. unfold Fresh, holds, front, set_car in *.
        simpl. rewrite upd_same. simpl. exact F.
      * (* Settle *) destruct (heard s) as [c|] eqn:Hh; try discriminate.
        apply guard_some in E as [G E]. boole.
        edestruct (settle_front kind_of s c I Hh) as (_ & _ & [B1 B2] & _); eauto.
        subst t. intros a M m HM HI HA. unfold holds in *. simpl in *.
        destruct (F a M m HM HI HA); auto. right.
        unfold front at 1. simpl. rewrite upd_same. simpl. lia.
      * (* Exec *) apply guard_some in E as [G E]. boole.
        assert (e = act s) by (eapply live_is_act; eauto). subst e.
        assert (FR : front t = S (ex (car s (act s))) /\ front s = ex (car s (act s)) \/
                     front t = front s /\ kind_of (ex (car s (act s))) = Rd).
        { subst t. unfold front. simpl. rewrite upd_same. simpl. unfold nop in *.
          match goal with X : _ && _ = false |- _ => apply andb_false_iff in X as [X|X]; boole end.
          - left; lia.
          - match goal with X : negb _ = false |- _ => apply negb_false_iff in X; rename X into RD end.
            unfold is_rd in RD. destruct (kind_of (ex (car s (act s)))) eqn:Q; try discriminate.
            destruct (Nat.lt_ge_cases (ex (car s (act s))) (nb (car s (act s)))); [right|left]; split; auto; lia. }
        set (n := ex (car s (act s))) in *.
        assert (W : wrs t = match kind_of n with Wr => n :: wrs s | _ => wrs s end) by (subst t; auto).
        clear E. intros a M m HM HI HA. unfold holds in *. rewrite W in *.
        destruct (kind_of n) eqn:KN.
        -- destruct (F a M m HM HI HA) as [|X]; auto.
           destruct FR as [[A B]|[A B]]; [|lia]. rewrite A. right.
           assert (kind_of m = Wr) by auto.
           destruct (Nat.eq_dec m n); [subst; congruence | lia].
        -- destruct FR as [[A B]|[A B]]; [|congruence]. rewrite A. simpl in HM, HI.
           unfold at_addr at 1 in HM. destruct (Nat.eqb_spec (addr n) a) as [EA|NA].
           ++ inversion HM; subst M. lia.
           ++ destruct HI as [->|HI]; try congruence. destruct (F a M m HM HI HA) as [|X]; auto.
              right. assert (m <> n) by congruence. lia.
        -- destruct (F a M m HM HI HA) as [|X]; auto.
           destruct FR as [[A B]|[A B]]; [|lia]. rewrite A. right.
           assert (kind_of m = Wr) by auto.
           destruct (Nat.eq_dec m n); [subst; congruence | lia].
        -- destruct (F a M m HM HI HA) as [|X]; auto.
           destruct FR as [[A B]|[A B]]; [|lia]. rewrite A. right.
           assert (kind_of m = Wr) by auto.
           destruct (Nat.eq_dec m n); [subst; congruence | lia].
      * (* Skip *) apply guard_some in E as [G E]. boole. unfold nop in *. boole. subst t.
        unfold Fresh, holds, front, set_car in *. simpl. rewrite upd_same. simpl.
        intros a M m HM HI HA. destruct (F a M m HM HI HA); auto. lia.
      * (* Tear *) apply guard_some in E as [G E]. boole.
        assert (e = act s) by (eapply live_is_act; eauto). subst e t.
        unfold Fresh, holds, front, set_car in *. simpl. rewrite upd_same. simpl. exact F.
      * (* Final *) apply guard_some in E as [G E]. boole.
        destruct (i_fin _ _ I ltac:(assumption)) as [F1 _].
        subst t. unfold Fresh, holds, front in *. simpl. rewrite upd_other by lia. exact F.
    + destruct l; simpl in E;
      try (match type of E with match heard s with _ => _ end = _ => destruct (heard s) end;
           try discriminate);
      repeat match goal with X : guard _ _ = Some _ |- _ => apply guard_some in X as [_ X]
           | X : Some _ = Some _ |- _ => inversion X; subst; clear X
           | X : _ = t |- _ => subst t end; try exact K.
      intros m. simpl. destruct (kind_of (ex (car s e))) eqn:Q; auto.
      intros [<-|]; auto.
    + (* Near *) pose proof (fun m => rank_mono kind_of m) as RM.
      destruct l; simpl in E;
      try (repeat match goal with X : guard _ _ = Some _ |- _ => apply guard_some in X as [_ X]
           | X : Some _ = Some _ |- _ => inversion X; subst; clear X
           | X : _ = t |- _ => subst t end; exact N).
      * apply guard_some in E as [_ E]; subst. unfold Near, front, set_car in *.
        simpl. rewrite upd_same. simpl. exact N.
      * destruct (heard s) as [c|] eqn:Hh; try discriminate.
        apply guard_some in E as [G E]. boole.
        edestruct (settle_front kind_of s c I Hh) as (C & _ & [B1 B2] & B3); eauto.
        subst t. intros m HI. simpl in HI. specialize (N m HI).
        unfold front at 1. simpl. rewrite upd_same. simpl. rewrite Nat.max_l by auto. lia.
      * apply guard_some in E as [G E]. boole.
        assert (e = act s) by (eapply live_is_act; eauto). subst e.
        assert (FM : front s <= front t).
        { subst t. unfold front. simpl. rewrite upd_same. simpl. lia. }
        assert (FX : ex (car s (act s)) <= front t).
        { subst t. unfold front. simpl. rewrite upd_same. simpl. lia. }
        intros m HI.
        assert (D : m = ex (car s (act s)) \/ In m (wrs s)).
        { subst t. simpl in HI. destruct (kind_of _); auto. destruct HI; auto. }
        destruct D as [->|D]; [apply RM; auto|]. specialize (N m D). specialize (RM _ _ FM). lia.
      * apply guard_some in E as [G E]. boole. unfold nop in *. boole. subst t.
        unfold Near, front, set_car in *. simpl. rewrite upd_same. simpl.
        rewrite Nat.max_l by lia. rewrite Nat.max_l in N by lia. exact N.
      * apply guard_some in E as [G E]. boole.
        assert (e = act s) by (eapply live_is_act; eauto). subst e t.
        unfold Near, front, set_car in *. simpl. rewrite upd_same. simpl. exact N.
      * apply guard_some in E as [G E]. boole.
        destruct (i_fin _ _ I ltac:(assumption)) as [F1 _].
        subst t. unfold Near, front in *. simpl. rewrite upd_other by lia. exact N.
Qed.

(* The last WRITE to a that was posted before n. *)
Definition last_before a n M := M < n /\ kind_of M = Wr /\ addr M = a /\
  forall m, m < n -> kind_of m = Wr -> addr m = a -> m <= M.

(* At the moment in which R receives request n, two-sided: memory is what it would be had every
   request before n been executed once, in order; and nothing behind n has touched it. *)
Theorem memory_at_notification s e s' n : reachable kind_of s -> step kind_of s (Exec e) = Some s' ->
  n = ex (car s e) -> kind_of n = Two ->
  (forall m, In m (wrs s') <-> m < n /\ kind_of m = Wr) /\
  forall a M, last_before a n M <-> holds s' a = Some M.
Proof.
  intros R H E K. pose proof (reachable_inv _ _ R) as I. destruct R as [ls R].
  destruct (inv2 ls init s (inv_init _)) as (F & KS & N); auto;
    try (intros m; intros; simpl in *; tauto).
  simpl in H. apply guard_some in H as [G H]; boole.
  assert (e = act s) by (eapply live_is_act; eauto). subst e. rewrite <- E in *.
  assert (FN : front s = n).
  { unfold front, nop in *. rewrite <- E.
    match goal with X : _ && _ = false |- _ => apply andb_false_iff in X as [X|X]; boole; [lia|] end.
    match goal with X : negb _ = false |- _ => apply negb_false_iff in X; unfold is_rd in X; rewrite K in X; discriminate end. }
  assert (W : wrs s' = wrs s) by (subst s'; simpl; rewrite K; auto).
  assert (B : forall m, In m (wrs s) <-> m < n /\ kind_of m = Wr).
  { intros m. split.
    - intros IM. split; auto. specialize (N m IM). rewrite FN in N.
      destruct (lt_eq_lt_dec m n) as [[?|?]|L]; auto.
      + subst. specialize (KS _ IM). congruence.
      + pose proof (rank_mono kind_of (S n) m L) as RM. simpl in RM.
        replace (is_two kind_of n) with true in RM by (unfold is_two; rewrite K; auto).
        simpl in RM. lia.
    - intros [L KM]. apply (i_wrs _ _ I); auto. lia. }
  unfold holds. rewrite W. split; auto. intros a M. split.
  - intros (L & KM & AM & MAX).
    assert (IM : In M (wrs s)) by (apply B; auto).
    destruct (find (at_addr a) (wrs s)) as [Q|] eqn:FQ.
    + pose proof (find_some _ _ FQ) as [IQ AQ]. unfold at_addr in AQ. apply Nat.eqb_eq in AQ.
      apply B in IQ as [LQ KQ]. destruct (F a Q M FQ IM AM); [|lia].
      f_equal. specialize (MAX Q LQ KQ AQ). lia.
    + exfalso. pose proof (find_none _ _ FQ M IM) as X. unfold at_addr in X.
      rewrite AM, Nat.eqb_refl in X. discriminate.
  - intros FQ. pose proof (find_some _ _ FQ) as [IQ AQ]. unfold at_addr in AQ. apply Nat.eqb_eq in AQ.
    pose proof (proj1 (B _) IQ) as [LQ KQ]. repeat split; auto.
    intros m L KM AM. destruct (F a M m FQ); auto; [apply B; auto | lia].
Qed.
End Simple.
