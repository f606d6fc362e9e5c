(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* The promises of docs/promises.md, for one direction: of every state that Dir.v can reach. *)
From Coq Require Import Arith List Bool Lia.
From Shift Require Import Dir Invariant Steps.
Import ListNotations.

Section Promises.
Variable kind_of : nat -> kind.
Variable fenced : nat -> bool.
Notation is_two := (is_two kind_of). Notation is_wr := (is_wr kind_of). Notation is_rd := (is_rd kind_of).
Notation is_at := (is_at kind_of). Notation rank := (rank kind_of). Notation twos := (twos kind_of).
Notation step := (step kind_of fenced). Notation reachable := (reachable kind_of fenced).
Notation here s := (car s (act s)).
Ltac kind n := pose proof (kinds kind_of n); destruct (kind_of n);
  repeat match goal with H : _ /\ _ |- _ => destruct H end.

Lemma reachable_step s l s' : reachable s -> step s l = Some s' -> reachable s'.
Proof.
  intros [ls R] H. exists (ls ++ [l]). revert R. generalize init. induction ls as [|x ls IH];
  simpl; intros i R.
  - inversion R; subst. rewrite H. auto.
  - destruct (Dir.step kind_of fenced i x); try discriminate. auto.
Qed.

(* P1: what is complete was executed, and a READ has its data, an atomic its one execution. *)
Theorem completed_is_executed s n : reachable s -> n < done s -> n < front s.
Proof. intros R L. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
pose proof (i_done _ _ s I). pose proof (i_una _ _ s I). unfold front. lia. Qed.
Theorem completed_read_has_data s n : reachable s -> n < done s -> is_rd n = true -> In n (got s).
Proof. intros R L K. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
apply (i_got _ _ s I); auto. pose proof (i_done _ _ s I). lia. Qed.

(* P2: what R's application has received are the two-sided requests in the order in which they were posted, each
   once, none left out, and the i-th one in the i-th receive. *)
Theorem two_sided_exactly_once s : reachable s ->
  map fst (log s) = twos (cp (here s)) /\ map snd (log s) = seq 0 (length (log s)).
Proof.
  intros R. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I. split;
  [apply (i_log _ _ s I)|].
  pose proof (i_recv _ _ s I) as H. clear R I.
  assert (G : forall (l : list (nat * nat)) k, (forall i n r, nth_error l i = Some (n, r) -> r = k + i) ->
              map snd l = seq k (length l)).
  { induction l as [|[n r] l IH]; intros k Hk; simpl; auto.
    rewrite (Hk 0 n r eq_refl), Nat.add_0_r. f_equal. apply IH.
    intros i n' r' E. rewrite (Hk (S i) n' r' E). lia. }
  apply G. auto.
Qed.
Lemma in_log s n : reachable s -> n < cp (here s) -> is_two n = true -> exists r, In (n, r) (log s).
Proof.
  intros R L T. destruct (two_sided_exactly_once s R) as [E _].
  assert (X : In n (twos (cp (here s)))) by (apply in_twos; auto).
  rewrite <- E in X. apply in_map_iff in X as ([n' r] & Q & X). simpl in Q. subst. eauto.
Qed.
Lemma log_in s n r : reachable s -> In (n, r) (log s) -> n < cp (here s) /\ is_two n = true.
Proof.
  intros R L. destruct (two_sided_exactly_once s R) as [E _].
  apply (in_map fst) in L. rewrite E in L. apply (in_twos kind_of fenced) in L. exact L.
Qed.

(* A move that succeeds has lost no SEND that the sender's application has seen complete, however many the NIC
   executed and acknowledged without one completion: else both ends get errors. What was not seen is sent again. *)
Theorem settle_keeps_what_was_seen s r p s' n : reachable s -> step s (Settle r p) = Some s' -> n < seen s ->
  is_two n = true -> exists k, In (n, k) (log s').
Proof.
  intros R H L T. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  pose proof (reachable_step _ _ _ R H) as R'. pose proof H as H0.
  unfold Dir.step in H. destruct (heard s) as [m|] eqn:Hh; try discriminate. cbv zeta in H.
  apply guard_some in H as [G H].
  apply andb_true_iff in G as [G MS]. apply andb_true_iff in G as [G RP].
  apply andb_true_iff in G as [G PP].
  apply andb_true_iff in G as [G RD]. apply andb_true_iff in G as [MV LE].
  unfold may_settle in MS. cbv zeta in MS. apply andb_true_iff in MS as [MS _].
  apply andb_true_iff in MS as [MS _]. apply andb_true_iff in MS as [MS _].
  apply andb_true_iff in MS as [S1 S2].
  apply Nat.leb_le in S1, S2, RP, PP. apply Nat.ltb_lt in LE.
  destruct (settle_facts kind_of fenced s m r p I Hh LE RD PP RP S1 S2) as (F1 & _ & (F3 & _) & _).
  assert (LG : log s' = log s) by (subst s'; reflexivity). rewrite LG.
  apply in_log; auto. destruct (Nat.lt_ge_cases n (cp (here s))); auto. exfalso.
  pose proof (rank_mono kind_of (cp (here s)) n ltac:(lia)).
  pose proof (rank_mono kind_of (S n) (v_from (Dir.settle kind_of fenced s m r p)) ltac:(lia)) as X.
  change (rank (S n)) with (rank n + b2n (is_two n)) in X. rewrite T in X. cbn [b2n] in X. lia.
Qed.

(* P3: when a two-sided request has been received, all WRITEs posted before it are in memory. *)
Theorem writes_before_receive s n r m : reachable s -> In (n, r) (log s) -> m < n -> is_wr m = true ->
  In m (wrs s).
Proof. intros R L M K. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
apply (i_p3 _ _ s I n r m); auto. Qed.
(* A READ looks behind them. *)
Theorem writes_before_read s e s' m : reachable s -> step s (Exec e) = Some s' -> doubt s = false ->
  is_rd (ex (car s e)) = true -> m < ex (car s e) -> is_wr m = true -> In m (wrs s).
Proof.
  intros R H D K M W. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  unfold Dir.step in H. cbv zeta in H. apply guard_some in H as [G _]. boole.
  assert (e = act s) by (eapply live_is_act; eauto). subst e.
  apply (i_wrs _ _ s I); auto. pose proof (i_cp _ _ s I).
  match goal with X : _ \/ (_ <=? _) = true |- _ => destruct X as [X|X]; boole; [rewrite K in X;
  discriminate|] end.
  lia.
Qed.

Lemma settle_from s m r p : Inv kind_of fenced s -> seen s <= v_done (Dir.settle kind_of fenced s m r p).
Proof.
  intros I. set (v := Dir.settle kind_of fenced s m r p). pose proof (i_seen _ _ s I).
  set (a := v_from v). assert (A : seen s <= a) by (unfold a, v, Dir.settle; simpl; destruct r;
  lia).
  set (r0 := region kind_of (count m) a (hi (here s) - a)). assert (B : a <= r0) by apply region_ge.
  destruct (answered_spec kind_of (here s) (act s <? cut m) (done s) (hi (here s) - r0) r0 r0) as (C & _); auto.
  assert (VL : v_line v = Nat.max (answered kind_of (here s) (act s <? cut m) (done s) r0 r0 (hi (here s) - r0)) p)
    by reflexivity.
  destruct (leading_spec (v_again v) (v_line v) (v_line v - a) a) as [LD _]; [lia|].
  change (leading (v_again v) (v_line v) a (v_line v - a)) with (v_done v) in LD. lia.
Qed.
(* An acknowledgement is not placement. After a move without doubt, all that the application has seen complete is
   in the peer's memory, whatever the peer's NIC took with it. *)
Theorem seen_is_placed s r p s' n : reachable s -> step s (Settle r p) = Some s' -> doubt s' = false ->
  n < seen s -> is_wr n = true -> In n (wrs s').
Proof.
  intros R H D L W. pose proof (reachable_step _ _ _ R H) as R'.
  pose proof (reachable_inv kind_of fenced s' ltac:(assumption)) as I'.
  pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  apply (i_wrs _ _ s' I'); auto.
  pose proof (i_cp _ _ s' I'). pose proof (i_lonb _ _ s' I').
  assert (X : seen s <= lo (here s')); [|lia].
  unfold Dir.step in H. destruct (heard s) as [m|]; try discriminate. cbv zeta in H.
  apply guard_some in H as [_ H]. subst s'. cbn [act car happens sends]. rewrite upd_same. cbn [lo].
  apply settle_from. auto.
Qed.
(* In doubt no receive completes any more: nothing tells R's application to look. *)
Theorem doubt_tells_nobody s l s' : reachable s -> doubt s = true -> step s l = Some s' -> log s' = log s.
Proof.
  intros R D H. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  unfold Dir.step in H.
  destruct l; try (destruct (heard s); [|discriminate]); cbv zeta in H;
    try (apply guard_some in H as [G H]); try (injection H as H); try (subst s'; reflexivity).
  boole. assert (e = act s) by (eapply comp_is_act; eauto). subst.
  assert (T : is_two (cp (here s)) = false).
  { pose proof (i_cp _ _ s I). pose proof (i_pl _ _ s I). pose proof (i_nb _ _ s I).
    pose proof (i_ex _ _ s I).
    destruct (i_doubt _ _ s I D (cp (here s))); [lia| |]; kind (cp (here s)); congruence. }
  simpl. rewrite T. auto.
Qed.

(* P4 *)
Theorem atomic_at_most_once s : reachable s -> NoDup (ats s).
Proof. intros R. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
apply (i_once _ _ s I). Qed.
Theorem completed_atomic_ran s n : reachable s -> n < done s -> is_at n = true -> In n (ats s).
Proof.
  intros R L K. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  apply (i_ats _ _ s I). split; auto. apply completed_is_executed; auto.
Qed.

(* P5: a WRITE that is executed, also for the second time, has not completed, and no later SEND has been received:
   memory that an application may have used again is not written. *)
Theorem no_stale_write s e s' : reachable s -> step s (Exec e) = Some s' -> is_wr (ex (car s e)) = true ->
  done s <= ex (car s e) /\ forall m r, In (m, r) (log s) -> m < ex (car s e).
Proof.
  intros R H K. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  unfold Dir.step in H. cbv zeta in H. apply guard_some in H as [G _]. boole.
  assert (e = act s) by (eapply live_is_act; eauto). subst e.
  pose proof (i_done _ _ s I). pose proof (i_una _ _ s I). split; [lia|].
  intros m r L. apply log_in in L as [L _]; auto. pose proof (i_cp _ _ s I).
  pose proof (i_pl _ _ s I).
  match goal with X : Dir.nop _ _ _ = false |- _ => unfold Dir.nop in X;
  apply orb_false_iff in X as [_ X];
    apply andb_false_iff in X as [X|X]; boole end; [lia|].
  match goal with X : mem _ _ = true |- _ => apply mem_in, (i_again _ _ s I) in X end.
  kind (ex (here s)); congruence.
Qed.
(* Nor is one that was executed before, and reaches memory late. *)
Theorem no_late_place s e s' : reachable s -> step s (Place e) = Some s' ->
  forall m r, In (m, r) (log s) -> m < pl (car s e).
Proof.
  intros R H m r L. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  unfold Dir.step in H. cbv zeta in H. apply guard_some in H as [G _]. boole.
  assert (e = act s) by (eapply place_is_act; eauto). subst e.
  apply log_in in L as [L _]; auto. pose proof (i_cp _ _ s I). lia.
Qed.
(* When S lays requests into a new carrier, and ever after, R executes nothing of it on an older one, and nothing
   of those is on its way to memory. *)
Theorem old_carriers_are_dead s e : reachable s -> e < act s -> dead_at s e = true /\ settled s e = true.
Proof.
  intros R L. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  pose proof (i_seal _ _ s I). destruct (i_sealed _ _ s I e) as [X _]; [lia|].
  split; auto. apply settled_dead. auto.
Qed.

(* The fence flag: a READ runs, for the first or a second time, only while nothing behind a fence behind it has. *)
Theorem read_is_older_than_its_fence s e s' m k : reachable s -> step s (Exec e) = Some s' ->
  is_rd (ex (car s e)) = true -> ex (car s e) < m -> fenced m = true -> m <= k -> changes kind_of k = true ->
  ~ In k (exd s).
Proof.
  intros R H K M F L C. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  unfold Dir.step in H. cbv zeta in H. apply guard_some in H as [G _]. boole.
  assert (e = act s) by (eapply live_is_act; eauto). subst e.
  apply (i_age _ _ s I (ex (here s)) m k); auto.
Qed.

(* The count never contradicts what was published, and what the model takes from the world, that packets older than
   the longest lifetime are gone, is not used against our own doorbells. *)
Theorem never_more_than_published s m : reachable s -> heard s = Some m -> act s < sep s ->
  count m <= rank (hi (here s)).
Proof.
  intros R Hh L. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  destruct (i_heard _ _ s I m Hh) as [_ M]. destruct (i_msgs _ _ s I _ _ M) as (_ & _ & X).
  destruct (X L) as (E & _). rewrite <- E, (log_rank kind_of fenced s I). apply rank_mono.
  pose proof (i_cp _ _ s I). pose proof (i_pl _ _ s I). pose proof (i_nb _ _ s I).
  pose proof (i_ex _ _ s I). lia.
Qed.
Theorem ring_not_on_gone s s' : reachable s -> step s Ring = Some s' -> gone s <= act s.
Proof.
  intros R H. pose proof (reachable_inv kind_of fenced s ltac:(assumption)) as I.
  unfold Dir.step in H. cbv zeta in H. apply guard_some in H as [G _]. boole.
  rewrite (i_still _ _ s I); auto. apply (i_gone _ _ s I).
Qed.
End Promises.

(* ---- not vacuous ------------------------------------------------------------------------------- *)

Definition no_fence (n : nat) := false.
Definition show (k : nat -> kind) ls :=
  option_map (fun s => (done s, seen s, log s, wrs s, doubt s)) (run k no_fence ls init).
Definition times n (l : label) := repeat l n.

(* WRITE SEND WRITE SEND: a fallback after the first SEND arrived and its acknowledgement was lost, then one with a
   NIC that hangs, after all had arrived. *)
Definition ws n := if Nat.even n then Wr else Two.
Definition demo : list label :=
  times 4 Post ++ times 4 Ring ++ times 3 (Exec 0) ++ times 3 (Place 0) ++ times 3 (Comp 0) ++
  [Leave 1; RLeave 1; Quiesce; RQuiesce; Seal false false; Final; Hear (Word 1 0 0); Settle false 0; Exec 1; Exec 1;
   Answer; Answer; Ack; Place 1; Place 1; Comp 1; Comp 1; RHang 1; Leave 2; RLeave 2; Quiesce; RQuiesce; RLifetime;
   Seal true false; Final; Hear (Word 2 2 0); Settle true 0].
Example demo_runs : show ws demo = Some (4, 0, [(1, 0); (3, 1)], [2; 2; 0], false).
Proof. vm_compute. reflexivity. Qed.

(* Torn by three: a NIC takes and acknowledges three SENDs, dies without one completion, and they are sent again. *)
Definition torn : list label :=
  times 3 Post ++ times 3 Ring ++ times 3 (Exec 0) ++ times 3 Answer ++ times 3 Ack ++
  [RLose 0; Leave 1; RLeave 1; Quiesce; Seal true true; Final; Hear (Word 0 1 1); Settle true 0] ++
  times 3 (Exec 1) ++ times 3 (Place 1) ++ times 3 (Comp 1).
Example torn_is_sent_again : show (fun _ => Two) torn = Some (0, 0, [(0, 0); (1, 1); (2, 2)], [], false).
Proof. vm_compute. reflexivity. Qed.
(* Where the application had seen one of them complete, there is no way on. *)
Example torn_and_seen_ends : show (fun _ => Two)
  (times 3 Post ++ times 3 Ring ++ times 3 (Exec 0) ++ times 3 Answer ++ times 3 Ack ++
   [See; RLose 0; Leave 1; RLeave 1; Quiesce; Seal true true; Final; Hear (Word 0 1 1); Settle true 0]) = None.
Proof. vm_compute. reflexivity. Qed.

(* A WRITE is acknowledged, seen complete, and never in memory: doubt; another WRITE may run, a SEND may not. *)
Definition lost_write : list label :=
  [Post; Ring; Exec 0; Answer; Ack; See; RLose 0; Leave 1; RLeave 1; Quiesce; Seal true true; Final; Hear (Word 0 1 1);
   Settle true 0; Post; Ring].
Example doubt_lets_a_write_run : show (fun _ => Wr) lost_write = Some (1, 1, [], [], true).
Proof. vm_compute. reflexivity. Qed.
Example doubt_stops_a_send : show (fun n => match n with 0 => Wr | _ => Two end) lost_write = None.
Proof. vm_compute. reflexivity. Qed.
