(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Which patterns are safe: NCCL LL. The receiver polls memory, and waits for no completion. A WRITE to an address is
   posted only when the sender has seen all earlier WRITEs to that address complete (S1 of NCCL's send proxy: a slot
   gets its next message behind the polled completion of its last one). Then the address takes the values of its
   WRITEs in the order in which they were posted, each once: a WRITE that runs again changes nothing.

   Seen (polled from the completion queue), not done (complete to the engine): a move may take back what was not
   polled. A WRITE with immediate is a WRITE here and a two-sided request behind it. A value is the number of its
   WRITE: the sender leaves the bytes at the source alone until it has seen the completion. *)
From Coq Require Import Arith List Bool Lia Sorted.
From Shift Require Import Dir Invariant Steps Promises Simple.
Import ListNotations.

Section LL.
Variable kind_of : nat -> kind.
Variable fenced : nat -> bool.
Variable addr : nat -> nat.
Notation is_two := (is_two kind_of). Notation is_wr := (is_wr kind_of).
Notation step := (step kind_of fenced).
Notation at_addr := (at_addr addr). Notation holds := (holds addr).
Notation here s := (car s (act s)).
Ltac kind n := pose proof (kinds kind_of n); destruct (kind_of n);
  repeat match goal with H : _ /\ _ |- _ => destruct H end.

(* S may post its next request: a WRITE only behind the completions of all earlier WRITEs to its address. *)
Definition in_turn s := is_wr (posted s) = true ->
  forall m, m < posted s -> is_wr m = true -> addr m = addr (posted s) -> m < seen s.

(* States that such a sender can reach, through whatever faults. *)
Inductive slots : st -> Prop :=
| slots_init : slots init
| slots_step s l s' : slots s -> step s l = Some s' -> (l = Post -> in_turn s) -> slots s'.

Lemma slots_reachable s : slots s -> reachable kind_of fenced s.
Proof.
  induction 1 as [|s l s' _ IH H _]; [exists []; reflexivity|]. eapply reachable_step; eauto.
Qed.

(* ---- the invariant --------------------------------------------------------------------------------- *)

Record Turns (s : st) : Prop := {
  (* an older WRITE to the same address is seen *)
  t_seen : forall k m, k < m < posted s -> is_wr k = true -> is_wr m = true -> addr k = addr m -> k < seen s;
  t_known : forall m, In m (wrs s) -> m < posted s;
  (* what was executed and is on its way to memory is no older than what is there *)
  t_way : forall n m, pl (here s) <= n < ex (here s) -> is_wr n = true -> In m (wrs s) -> addr m = addr n -> m <= n;
  (* in memory, the last one first: nothing is followed by an older one *)
  t_order : forall l1 m l2 k, wrs s = l1 ++ m :: l2 -> In k l2 -> addr k = addr m -> k <= m;
  (* none is left out *)
  t_each : doubt s = false -> forall k m, In m (wrs s) -> k < m -> is_wr k = true -> addr k = addr m -> In k (wrs s)
}.

(* Exec: it has not completed (no_stale_write), so nothing younger to its address was even posted. *)
Lemma turns_exec s e s' : reachable kind_of fenced s -> Turns s -> step s (Exec e) = Some s' -> Turns s'.
Proof.
  intros R T H. pose proof (reachable_inv _ _ s R) as I. pose proof H as H0.
  unfold Dir.step in H. cbv zeta in H. apply guard_some in H as [G H]. boole.
  assert (e = act s) by (eapply live_is_act; eauto). subst e.
  pose proof (i_ex _ _ s I). pose proof (i_hi _ _ s I). pose proof (i_seen _ _ s I).
  destruct T as [T1 T2 T3 T4 T5]. subst s'. constructor; simpl; auto.
  rewrite upd_same. cbn [pl ex]. intros n m L W M A.
  destruct (Nat.eq_dec n (ex (here s))) as [E|]; [|apply T3; auto; lia]. subst n.
  destruct (no_stale_write kind_of fenced s (act s) _ R H0 W) as [D _].
  destruct (Nat.le_gt_cases m (ex (here s))) as [|Y]; auto. exfalso.
  pose proof (i_kinds _ _ s I m M) as WM.
  pose proof (T1 (ex (here s)) m (conj Y (T2 m M)) W WM (eq_sym A)). lia.
Qed.

(* Place: the next one in order on the carrier in use, and on no older one (old_carriers_are_dead). *)
Lemma turns_place s e s' : reachable kind_of fenced s -> Turns s -> step s (Place e) = Some s' -> Turns s'.
Proof.
  intros R T H. pose proof (reachable_inv _ _ s R) as I.
  unfold Dir.step in H. cbv zeta in H. apply guard_some in H as [G H]. boole.
  assert (e = act s) by (eapply place_is_act; eauto). subst e.
  pose proof (i_ex _ _ s I). pose proof (i_hi _ _ s I).
  destruct T as [T1 T2 T3 T4 T5]. set (n := pl (here s)) in *. subst s'.
  constructor; simpl; auto.
  - intros m M. destruct (is_wr n); [destruct M as [<-|M]; [lia|]|]; auto.
  - rewrite upd_same. cbn [pl ex]. intros q m L W M A. destruct (is_wr n); [destruct M as [<-|M]; [lia|]|];
    apply T3; auto; lia.
  - intros l1 m l2 k E K A. destruct (is_wr n) eqn:W; [|eapply T4; eauto].
    destruct l1 as [|x l1]; simpl in E; inversion E; subst; [|eapply T4; eauto].
    apply (T3 n k); auto; lia.
  - intros D k m M L W A. destruct (is_wr n) eqn:N; [|eapply T5; eauto].
    destruct M as [<-|M]; [|right; eapply T5; eauto]. right. apply (i_wrs _ _ s I); auto.
Qed.

(* What a move lays into the next carrier begins behind what it counts as complete. *)
Lemma settled_from s m r p : let v := settle kind_of fenced s m r p in v_done v <= Nat.max (nb (here s)) (v_line v).
Proof.
  intros v. set (a := v_from v). set (r0 := region kind_of (count m) a (hi (here s) - a)).
  assert (B : a <= r0) by apply region_ge.
  destruct (answered_spec kind_of (here s) (act s <? cut m) (done s) (hi (here s) - r0) r0 r0) as (C & _); auto.
  assert (VL : v_line v = Nat.max (answered kind_of (here s) (act s <? cut m) (done s) r0 r0 (hi (here s) - r0)) p)
    by reflexivity.
  destruct (leading_spec (v_again v) (v_line v) (v_line v - a) a) as [LD _]; [lia|].
  change (leading (v_again v) (v_line v) a (v_line v - a)) with (v_done v) in LD. lia.
Qed.

Lemma turns_step s l s' : reachable kind_of fenced s -> Turns s -> step s l = Some s' -> (l = Post -> in_turn s) ->
  Turns s'.
Proof.
  intros R T H P. pose proof (reachable_inv _ _ s R) as I.
  destruct l; try (eapply turns_exec; eauto; fail); try (eapply turns_place; eauto; fail);
    unfold Dir.step in H;
    try (destruct (heard s) as [m|] eqn:Hh; [|discriminate]); cbv zeta in H;
    try (apply guard_some in H as [G H]); try (injection H as H);
    destruct T as [T1 T2 T3 T4 T5];
    try (subst s'; constructor; simpl; auto; fail).
  - (* Post *) specialize (P eq_refl). unfold in_turn in P. subst s'. constructor; simpl; auto.
    + intros k m L W WM A. destruct (Nat.eq_dec m (posted s)) as [E|]; [subst m; apply P; auto; lia|].
      apply (T1 k m); auto; lia.
    + intros m M. specialize (T2 m M). lia.
  - (* Ring *) subst s'. constructor; simpl; auto. rewrite upd_same. auto.
  - (* Answer *) subst s'. constructor; simpl; auto. rewrite upd_same. auto.
  - (* See *) subst s'. constructor; simpl; auto. intros k m L W WM A. specialize (T1 k m L W WM A). lia.
  - (* Settle: nothing is on its way on the new carrier *)
    pose proof (settled_from s m recall proof) as Q. set (v := settle kind_of fenced s m recall proof) in *.
    clearbody v. subst s'. constructor; simpl; auto.
    + rewrite upd_same. cbn [pl ex]. cbv zeta in Q. intros n m0 L. lia.
    + intros D. apply orb_false_iff in D as [D _]. exact (T5 D).
  - (* Skip: a NOP *)
    boole. subst s'. constructor; simpl; auto. rewrite upd_same. cbn [pl ex]. intros n m0 L W M A.
    apply T3; auto. destruct (Nat.eq_dec n (ex (here s))) as [E|].
    + exfalso. subst n.
      match goal with N : nop kind_of _ _ = true |- _ => apply nop_below in N end;
        [|kind (ex (here s)); congruence].
      pose proof (i_cp _ _ s I). destruct (Nat.eqb_spec (pl (here s)) (ex (here s))); lia.
    + destruct (Nat.eqb_spec (pl (here s)) (ex (here s))); lia.
  - (* Comp *) boole. assert (e = act s) by (eapply comp_is_act; eauto). subst e s'.
    constructor; simpl; auto. rewrite upd_same. auto.
  - (* Final *) boole. destruct (i_fin _ _ s I) as [X _]; [auto|]. subst s'. constructor; simpl; auto.
    rewrite upd_other by lia. auto.
Qed.

Lemma turns s : slots s -> Turns s.
Proof.
  induction 1 as [|s l s' S IH H P].
  - constructor; simpl; intros; try tauto; try lia. destruct l1; discriminate.
  - eapply turns_step; eauto. apply slots_reachable; auto.
Qed.

(* ---- the values of an address over time ------------------------------------------------------------- *)

(* No value is followed by an older one. *)
Theorem never_goes_back s l s' a M : slots s -> step s l = Some s' -> (l = Post -> in_turn s) -> holds s a = Some M ->
  exists M', holds s' a = Some M' /\ M <= M'.
Proof.
  intros S H P HM. pose proof (turns s' (slots_step s l s' S H P)) as T.
  assert (W : wrs s' = wrs s \/ exists n, wrs s' = n :: wrs s).
  { unfold Dir.step in H. destruct l; try (destruct (heard s); [|discriminate]); cbv zeta in H;
      try (apply guard_some in H as [_ H]); try (injection H as H); subst s'; simpl; auto.
    destruct (is_wr _); eauto. }
  unfold Simple.holds in *. destruct W as [W|[n W]]; rewrite W in *; eauto. simpl.
  unfold Simple.at_addr at 1. destruct (Nat.eqb_spec (addr n) a) as [E|]; eauto.
  exists n. split; auto. apply find_some in HM as [IN AT]. unfold Simple.at_addr in AT. apply Nat.eqb_eq in AT.
  apply (t_order _ T [] n (wrs s) M); auto. congruence.
Qed.

(* Neighbours that are equal count once: the same bytes were written again. *)
Fixpoint squeeze (l : list nat) : list nat :=
  match l with
  | x :: t => match t with y :: _ => if x =? y then squeeze t else x :: squeeze t | [] => [x] end
  | [] => []
  end.
(* What the address has held, the oldest first. *)
Definition values s a := squeeze (rev (filter (at_addr a) (wrs s))).

Lemma squeeze_in l x : In x (squeeze l) <-> In x l.
Proof.
  induction l as [|y [|z t] IH]; try reflexivity. change (squeeze (y :: z :: t)) with
    (if y =? z then squeeze (z :: t) else y :: squeeze (z :: t)).
  destruct (Nat.eqb_spec y z) as [->|].
  - rewrite IH. simpl. tauto.
  - simpl In at 1. rewrite IH. simpl. tauto.
Qed.
Lemma squeeze_sorted l : StronglySorted le l -> StronglySorted lt (squeeze l).
Proof.
  induction l as [|y [|z t] IH]; intros S; try (repeat constructor; fail).
  change (squeeze (y :: z :: t)) with (if y =? z then squeeze (z :: t) else y :: squeeze (z :: t)).
  inversion S as [|? ? S' F]; subst. destruct (Nat.eqb_spec y z); auto. constructor; auto.
  apply Forall_forall. intros x X. rewrite squeeze_in in X. rewrite Forall_forall in F.
  pose proof (F z (or_introl eq_refl)). inversion S' as [|? ? _ F']; subst. rewrite Forall_forall in F'.
  destruct X as [->|X]; [lia|]. specialize (F' x X). lia.
Qed.
Lemma sorted_equal l1 : forall l2, StronglySorted lt l1 -> StronglySorted lt l2 ->
  (forall x, In x l1 <-> In x l2) -> l1 = l2.
Proof.
  induction l1 as [|x l1 IH]; intros [|y l2] S1 S2 E; auto.
  - exfalso. apply (E y). left. auto.
  - exfalso. apply (E x). left. auto.
  - inversion S1 as [|? ? S1' F1]; inversion S2 as [|? ? S2' F2]; subst.
    rewrite Forall_forall in F1, F2.
    assert (x = y).
    { destruct (proj1 (E x) (or_introl eq_refl)) as [|X]; auto.
      destruct (proj2 (E y) (or_introl eq_refl)) as [|Y]; auto.
      specialize (F1 y Y). specialize (F2 x X). lia. }
    subst y. f_equal. apply IH; auto. intros q. split; intros Q.
    + destruct (proj1 (E q) (or_intror Q)) as [<-|]; auto. specialize (F1 _ Q). lia.
    + destruct (proj2 (E q) (or_intror Q)) as [<-|]; auto. specialize (F2 _ Q). lia.
Qed.
Lemma sorted_app l1 l2 : StronglySorted le l1 -> StronglySorted le l2 ->
  (forall x y, In x l1 -> In y l2 -> x <= y) -> StronglySorted le (l1 ++ l2).
Proof.
  induction 1 as [|x l1 S IH F]; simpl; auto. intros S2 L. constructor.
  - apply IH; auto.
  - apply Forall_app. split; auto. apply Forall_forall. auto.
Qed.
Lemma history_sorted a w : (forall l1 m l2 k, w = l1 ++ m :: l2 -> In k l2 -> addr k = addr m -> k <= m) ->
  StronglySorted le (rev (filter (at_addr a) w)).
Proof.
  induction w as [|n w IH]; intros H; simpl; [constructor|].
  assert (T : StronglySorted le (rev (filter (at_addr a) w))).
  { apply IH. intros l1 m l2 k E. apply (H (n :: l1) m l2 k). simpl. congruence. }
  destruct (at_addr a n) eqn:A; auto. simpl. apply sorted_app; auto; [repeat constructor|].
  intros x y X [<-|[]]. apply in_rev, filter_In in X as [X B].
  unfold Simple.at_addr in A, B. apply Nat.eqb_eq in A, B. apply (H [] n w x); auto. congruence.
Qed.
Lemma filter_seq_sorted f n : forall b, StronglySorted lt (filter f (seq b n)).
Proof.
  induction n as [|n IH]; intros b; simpl; [constructor|]. destruct (f b); auto. constructor; auto.
  apply Forall_forall. intros x X. apply filter_In in X as [X _]. apply in_seq in X. lia.
Qed.

(* In order, through whatever faults: each value is younger than the one before it. *)
Theorem values_in_order s a : slots s -> StronglySorted lt (values s a).
Proof. intros S. apply squeeze_sorted, history_sorted, (t_order _ (turns s S)). Qed.

(* Each once: up to the value that is there now, the values were the WRITEs to that address, in the order in which
   they were posted, and none was left out. In doubt (a NIC died with what it had acknowledged) one may be: then a
   receiver that polls for its flag waits; what it has seen does not go back. *)
Theorem values_are_the_writes s a M : slots s -> doubt s = false -> holds s a = Some M ->
  values s a = filter (fun m => is_wr m && at_addr a m) (seq 0 (S M)).
Proof.
  intros S D HM. pose proof (turns s S) as T. pose proof (reachable_inv _ _ s (slots_reachable s S)) as I.
  apply sorted_equal; [apply values_in_order; auto | apply filter_seq_sorted |]. intros x. unfold values.
  rewrite squeeze_in, <- in_rev, !filter_In, in_seq, andb_true_iff.
  pose proof (find_some _ _ HM) as [IM AM]. split.
  - intros [X A]. pose proof (i_kinds _ _ s I x X). repeat split; auto; try lia.
    enough (x <= M) by lia. unfold Simple.holds in HM. clear - HM X A T.
    destruct T as [_ _ _ T4 _]. revert HM X T4. generalize (wrs s).
    induction l as [|n l IH]; intros HM X T4; [destruct X|]. simpl in HM. destruct (at_addr a n) eqn:N.
    + inversion HM; subst. destruct X as [->|X]; auto. unfold Simple.at_addr in A, N.
      apply Nat.eqb_eq in A, N. apply (T4 [] M l x); auto. congruence.
    + destruct X as [->|X]; [congruence|]. apply IH; auto. intros l1 m l2 k E. apply (T4 (n :: l1) m l2 k).
      simpl. congruence.
  - intros [L [W A]]. split; auto. unfold Simple.at_addr in A, AM. apply Nat.eqb_eq in A, AM.
    destruct (Nat.eq_dec x M) as [->|]; auto. apply (t_each _ T D x M); auto; [lia|congruence].
Qed.
End LL.

(* ---- not vacuous ------------------------------------------------------------------------------------ *)

(* WRITEs only, to two addresses in turns: 0, 2, 4 to the one, 1, 3, 5 to the other. *)
Definition two_slots n := if Nat.even n then 0 else 1.
Definition all_writes (n : nat) := Wr.
Definition held a ls := option_map (fun s => values two_slots s a) (run all_writes no_fence ls init).
Definition lost_answers : list label :=
  [Leave 1; RLeave 1; Quiesce; RQuiesce; Seal false false; Final; Hear (Word 0 0 0); Settle false 0] ++
  times 2 (Exec 1) ++ times 2 (Place 1) ++ times 2 Answer ++ times 2 Ack ++ times 2 See.

(* Both are executed, their acknowledgements are lost, and they run again on the next carrier; then their slots get
   their next messages. *)
Definition in_turns : list label :=
  times 2 Post ++ times 2 Ring ++ times 2 (Exec 0) ++ times 2 (Place 0) ++ times 2 (Comp 0) ++ lost_answers ++
  times 2 Post ++ times 2 Ring ++ times 2 (Exec 1) ++ times 2 (Place 1).
Example in_turns_all_there : held 0 in_turns = Some [0; 2] /\ held 1 in_turns = Some [1; 3].
Proof. vm_compute. auto. Qed.

(* A slot is given out too soon: 2 is posted before 0 is seen complete. Both run again, and the slot goes back. *)
Definition too_soon : list label :=
  times 3 Post ++ times 3 Ring ++ times 3 (Exec 0) ++ times 3 (Place 0) ++ times 3 (Comp 0) ++ lost_answers.
Example too_soon_goes_back : held 0 too_soon = Some [0; 2; 0].
Proof. vm_compute. reflexivity. Qed.
