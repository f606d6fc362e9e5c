(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* The ordered switch repeats nothing (core_switch.c; promise 9 of docs/model): a side leaves because both are
   fenced only if nothing is outstanding at either end, and the other end stays so until it has left as well.
   Any number of attempts, cancels, lost standbys and faults; STATE is lost, doubled, late, and crosses. *)
From Coq Require Import Arith List Bool Lia.
Import ListNotations.

Inductive phase := PNone | Prep | Fenced | Cancel.
Inductive word := Asks | IsFenced | Cancels | Lost. (* Asks: PREP or FENCED of that number *)
Record msg := Msg { who : bool; about : nat; says : word; num : nat }.
Record side := Side {
  ep : nat; ph : phase; no : nat; pf : bool;  (* the peer is FENCED *)
  gonesb : bool;  (* the standby of this attempt is lost *)
  out : bool      (* something is outstanding *)
}.
Record st := St { sf : side; sr : side; hist : list msg; left : list (bool * nat * nat) }.
Definition at_ (s : st) (b : bool) := if b then sr s else sf s.
Definition put s (b : bool) x ms := St (if b then sf s else x) (if b then x else sr s) (ms ++ hist s) (left s).
Definition init := let x := Side 0 PNone 0 false false false in St x x [] [].

Inductive label :=
| Work (b : bool) | Complete (b : bool) | Begin (b : bool) (n : nat) | Fence (b : bool) | Back (b : bool)
| LoseStandby (b : bool) | HearFenced (b : bool) | HearAsks (b : bool) (n : nat) (join : bool)
| HearCancel (b : bool) (n : nat) | HearLost (b : bool) | LeaveOrdered (b : bool) (e : nat)
| LeaveFault (b : bool) (e : nat).

Definition heard s b w n := exists m, In m (hist s) /\ who m = negb b /\ about m = ep (at_ s b) /\ says m = w /\ num m = n.
Definition switching x := ph x = Prep \/ ph x = Fenced.

Inductive step (s : st) : label -> st -> Prop :=
| SWork b x : x = at_ s b -> ph x <> Fenced ->
    step s (Work b) (put s b (Side (ep x) (ph x) (no x) (pf x) (gonesb x) true) [])
| SComplete b x : x = at_ s b ->
    step s (Complete b) (put s b (Side (ep x) (ph x) (no x) (pf x) (gonesb x) false) [])
| SBegin b n x : x = at_ s b -> ~ switching x -> no x < n ->
    step s (Begin b n) (put s b (Side (ep x) Prep n false false (out x)) [Msg b (ep x) Asks n])
| SFence b x : x = at_ s b -> ph x = Prep -> out x = false ->
    step s (Fence b) (put s b (Side (ep x) Fenced (no x) (pf x) (gonesb x) false)
                          [Msg b (ep x) IsFenced (no x); Msg b (ep x) Asks (no x)])
| SBack b x : x = at_ s b -> ph x = Prep ->  (* before the own FENCED *)
    step s (Back b) (put s b (Side (ep x) Cancel (no x) false (gonesb x) (out x)) [Msg b (ep x) Cancels (no x)])
| SLose b x : x = at_ s b -> ph x = Fenced ->
    step s (LoseStandby b) (put s b (Side (ep x) Fenced (no x) (pf x) true (out x)) [Msg b (ep x) Lost (no x)])
| SHearFenced b x : x = at_ s b -> switching x -> heard s b IsFenced (no x) ->
    step s (HearFenced b) (put s b (Side (ep x) (ph x) (no x) true (gonesb x) (out x)) [])
| SHearAsks b n x (join : bool) : x = at_ s b -> no x < n -> heard s b Asks n ->
    step s (HearAsks b n join)
      (put s b (Side (ep x) (if join then Prep else Cancel) n false false (out x))
           ((if join then Msg b (ep x) Asks n else Msg b (ep x) Cancels n) :: [Msg b (ep x) Cancels (no x)]))
| SHearCancel b n x : x = at_ s b -> no x <= n -> heard s b Cancels n ->
    step s (HearCancel b n) (put s b (Side (ep x) Cancel n false (gonesb x) (out x)) [Msg b (ep x) Cancels n; Msg b (ep x) Cancels (no x)])
| SHearLost b x : x = at_ s b -> switching x -> heard s b Lost (no x) ->
    step s (HearLost b) (put s b (Side (ep x) Cancel (no x) false (gonesb x) (out x)) [Msg b (ep x) Cancels (no x)])
| SLeaveOrdered b e x : x = at_ s b -> ph x = Fenced -> pf x = true -> gonesb x = false -> ep x < e ->
    step s (LeaveOrdered b e)
      (let s' := put s b (Side e PNone (no x) false false (out x)) [] in
       St (sf s') (sr s') (hist s') ((b, ep x, no x) :: left s))
| SLeaveFault b e x : x = at_ s b -> ep x < e ->
    step s (LeaveFault b e) (put s b (Side e PNone (no x) false false (out x)) []).

Inductive reach : st -> Prop := R0 : reach init | R1 s l s' : reach s -> step s l s' -> reach s'.

(* b said, while at e, that it will not leave by attempt n. *)
Definition burnt s b e n := exists m, In m (hist s) /\ who m = b /\ about m = e /\
  ((says m = Cancels /\ n <= num m) \/ (says m = Asks /\ n < num m) \/ (says m = Lost /\ num m = n)).
Definition still x e n := ep x = e /\ ph x = Fenced /\ no x = n.

Record Inv (s : st) : Prop := {
  v_out : forall b, ph (at_ s b) = Fenced -> out (at_ s b) = false;
  v_past : forall m, In m (hist s) -> about m <= ep (at_ s (who m));
  v_no : forall m, In m (hist s) -> about m = ep (at_ s (who m)) -> num m <= no (at_ s (who m));
  v_burnt : forall b n, burnt s b (ep (at_ s b)) n -> ph (at_ s b) = Fenced -> no (at_ s b) = n -> gonesb (at_ s b) = true;
  v_burntp : forall b n, burnt s b (ep (at_ s b)) n -> ph (at_ s b) = Prep -> no (at_ s b) <> n;
  v_fenced : forall m, In m (hist s) -> says m = IsFenced ->
    about m < ep (at_ s (who m)) \/ still (at_ s (who m)) (about m) (num m) \/ burnt s (negb (who m)) (about m) (num m);
  v_pf : forall b, pf (at_ s b) = true -> exists m, In m (hist s) /\ who m = negb b /\ about m = ep (at_ s b) /\
    says m = IsFenced /\ num m = no (at_ s b);
  v_left : forall b e n, In (b, e, n) (left s) -> e < ep (at_ s b) /\ ~ burnt s b e n /\
    (e < ep (at_ s (negb b)) \/ still (at_ s (negb b)) e n)
}.

Lemma at_put s b x ms c : at_ (put s b x ms) c = if Bool.eqb b c then x else at_ s c.
Proof. destruct b, c; reflexivity. Qed.

Lemma burnt_put s b x ms c e n : burnt (put s b x ms) c e n ->
  burnt s c e n \/ exists m, In m ms /\ who m = c /\ about m = e /\
    ((says m = Cancels /\ n <= num m) \/ (says m = Asks /\ n < num m) \/ (says m = Lost /\ num m = n)).
Proof.
  intros (m & M & R). simpl in M. apply in_app_iff in M as [M|M]; [right|left]; exists m; auto.
Qed.
Lemma burnt_mono s b x ms c e n : burnt s c e n -> burnt (put s b x ms) c e n.
Proof. intros (m & M & R). exists m. split; auto. simpl. apply in_app_iff. auto. Qed.

Lemma frame s b x' ms : Inv s ->
  (ph x' = Fenced -> out x' = false) ->
  ep (at_ s b) <= ep x' ->
  (forall m, In m ms -> who m = b /\ about m = ep x' /\ ep x' = ep (at_ s b) /\ num m <= no x') ->
  (ep x' = ep (at_ s b) -> no (at_ s b) <= no x') ->
  (forall n, burnt (put s b x' ms) b (ep x') n -> no x' = n ->
     (ph x' = Fenced -> gonesb x' = true) /\ ph x' <> Prep) ->
  (forall m, In m ms -> says m = IsFenced -> still x' (about m) (num m)) ->
  (forall e n, still (at_ s b) e n -> e < ep x' \/ still x' e n \/ burnt s (negb b) e n) ->
  (pf x' = true -> exists m, In m (hist s) /\ who m = negb b /\ about m = ep x' /\
    says m = IsFenced /\ num m = no x') ->
  Inv (put s b x' ms).
Proof.
  intros I C1 C2 C3 C4 C5 C6 C7 C8. constructor.
  - intros c. rewrite at_put. destruct (Bool.eqb b c); auto. apply (v_out s I).
  - intros m M. rewrite at_put. simpl in M. apply in_app_iff in M as [M|M].
    + destruct (C3 m M) as (W & A & _). rewrite W, eqb_reflx, A. auto.
    + pose proof (v_past s I m M). destruct (Bool.eqb b (who m)) eqn:E; auto.
      apply eqb_prop in E. rewrite <- E in *. lia.
  - intros m M. rewrite at_put. simpl in M. apply in_app_iff in M as [M|M].
    + destruct (C3 m M) as (W & _ & _ & N). rewrite W, eqb_reflx. auto.
    + destruct (Bool.eqb b (who m)) eqn:E; [|apply (v_no s I); auto].
      apply eqb_prop in E. intros A. pose proof (v_past s I m M) as P. rewrite <- E in *.
      assert (Q : ep x' = ep (at_ s b)) by lia. pose proof (v_no s I m M) as N.
      rewrite <- E in N. rewrite <- Q in N. specialize (N A). specialize (C4 Q). lia.
  - intros c n. rewrite at_put. destruct (Bool.eqb b c) eqn:E.
    + apply eqb_prop in E; subst c. intros B F N. destruct (C5 n B N); auto.
    + intros B. apply (v_burnt s I). apply burnt_put in B as [B|(m & M & W & _)]; auto.
      destruct (C3 m M) as (W' & _). rewrite W' in W. subst c. rewrite eqb_reflx in E. discriminate.
  - intros c n. rewrite at_put. destruct (Bool.eqb b c) eqn:E.
    + apply eqb_prop in E; subst c. intros B F N. destruct (C5 n B N); auto.
    + intros B. apply (v_burntp s I). apply burnt_put in B as [B|(m & M & W & _)]; auto.
      destruct (C3 m M) as (W' & _). rewrite W' in W. subst c. rewrite eqb_reflx in E. discriminate.
  - intros m M S. simpl in M. apply in_app_iff in M as [M|M].
    + destruct (C3 m M) as (W & _). rewrite at_put, W, eqb_reflx. auto.
    + rewrite at_put. destruct (v_fenced s I m M S) as [L|[L|L]].
      * left. destruct (Bool.eqb b (who m)) eqn:E; auto. apply eqb_prop in E. rewrite <- E in L.
        lia.
      * destruct (Bool.eqb b (who m)) eqn:E; auto. apply eqb_prop in E. rewrite <- E in *.
        destruct (C7 _ _ L) as [?|[?|?]]; auto. right; right. apply burnt_mono; auto.
      * right; right. apply burnt_mono; auto.
  - intros c. rewrite at_put. simpl. destruct (Bool.eqb b c) eqn:E.
    + apply eqb_prop in E; subst c. intros P. destruct (C8 P) as (m & M & R).
      exists m. split; auto. apply in_app_iff; auto.
    + intros P. destruct (v_pf s I c P) as (m & M & R). exists m. split; auto. apply in_app_iff;
      auto.
  - intros c e n L. simpl in L. destruct (v_left s I c e n L) as (E & B & K). rewrite !at_put.
    split; [|split].
    + destruct (Bool.eqb b c) eqn:Q; auto. apply eqb_prop in Q; subst. lia.
    + intros X. apply burnt_put in X as [X|(m & M & W & A & _)]; auto.
      destruct (C3 m M) as (W' & A' & Q & _). rewrite W' in W. subst c. lia.
    + destruct (Bool.eqb b (negb c)) eqn:Q; auto. apply eqb_prop in Q; subst b.
      destruct K as [K|K]; [left; lia|]. destruct (C7 _ _ K) as [?|[?|X]]; auto.
      rewrite negb_involutive in X. tauto.
Qed.

Lemma inv_init : Inv init.
Proof.
  constructor.
  - intros []; discriminate.
  - intros m [].
  - intros m [].
  - intros b n (m & [] & _).
  - intros b n (m & [] & _).
  - intros m [].
  - intros []; discriminate.
  - intros b e n [].
Qed.

Lemma burnt_no s b n : Inv s -> burnt s b (ep (at_ s b)) n -> n <= no (at_ s b).
Proof.
  intros I (m & M & W & A & R). pose proof (v_no s I m M) as N. rewrite W in N. specialize (N A).
  intuition lia.
Qed.

(* What was said of this epoch, and what is said now. *)
Ltac said I B := let m := fresh in let M := fresh in let W := fresh in let A := fresh in let R := fresh in
  apply burnt_put in B as [B|(m & M & W & A & R)];
  [ pose proof (burnt_no _ _ _ I B)
  | exfalso; simpl in M; repeat (destruct M as [M|M]; [subst m; simpl in *;
      destruct R as [[R ?]|[[R ?]|[R ?]]]; try discriminate; lia|]); contradiction ].
Ltac easy_goal := solve [auto | lia | discriminate | tauto
  | intros; simpl in *; intuition (subst; simpl in *; auto; try lia; try discriminate)
  | intros ? (? & ? & ?); tauto | intros ? ? (? & ? & ?); tauto | intros ? ? (? & ? & ?); congruence
  | intros ? ? (? & ? & ?); right; left; unfold still; simpl; auto].
Ltac frame I := apply frame; [assumption|..]; simpl; try easy_goal;
  try match goal with |- _ = true -> ex _ => let P := fresh in intros P; exact (v_pf _ I _ P) end;
  try match goal with |- _ = Fenced -> _ = false => let P := fresh in intros P; apply (v_out _ I); auto end.

Lemma step_inv s l s' : Inv s -> step s l s' -> Inv s'.
Proof.
  intros I H. destruct H; subst x; simpl.
  - (* Work *) frame I. intros n B N. said I B. split; [tauto|]. intros P. exact (v_burntp s I b n B P N).
  - (* Complete *) frame I. intros n B N. said I B. split; intros P.
    + exact (v_burnt s I b n B P N).
    + exact (v_burntp s I b n B P N).
  - (* Begin *) frame I.
    + intros k B N. said I B. exfalso; lia.
    + intros e k (A & B & C). exfalso. apply H0. right; auto.
  - (* Fence *) frame I.
    + intros n B N. said I B. exfalso. exact (v_burntp s I b n B H0 N).
    + intros m M S. unfold still. simpl. intuition (subst; simpl in *; auto; discriminate).
  - (* Back *) frame I.
  - (* LoseStandby *) frame I.
  - (* HearFenced *) destruct H1 as (m & M & W & A & S & N). frame I.
    + intros n B K. said I B. split; intros P.
      * exact (v_burnt s I b n B P K).
      * exact (v_burntp s I b n B P K).
    + intros P. exists m. auto.
  - (* HearAsks *) destruct H1 as (m & M & W & A & S & N). destruct join; frame I.
    all: try (intros k B K; said I B; exfalso; lia).
    all: intros e k (E1 & E2 & E3); right; right; exists m; subst; repeat split; auto.
  - (* HearCancel *) destruct H1 as (m & M & W & A & S & N). frame I.
    intros e k (E1 & E2 & E3). right; right. exists m. subst. repeat split; auto.
  - (* HearLost *) destruct H1 as (m & M & W & A & S & N). frame I.
    intros e k (E1 & E2 & E3). right; right. exists m. subst. repeat split; auto.
  - (* LeaveOrdered *)
    assert (J : Inv (put s b (Side e PNone (no (at_ s b)) false false (out (at_ s b))) [])).
    { frame I. intros e' n (A & B & C). left. lia. }
    destruct J. constructor; auto; simpl in *.
    intros c f n [E|L]; [|apply v_left0; auto]. inversion E; subst; clear E.
    pose proof (at_put s c (Side e PNone (no (at_ s c)) false false (out (at_ s c))) []) as AP.
    assert (NB : ~ burnt s c (ep (at_ s c)) (no (at_ s c))).
    { intros B. pose proof (v_burnt s I c _ B H0 eq_refl). congruence. }
    change (ep (at_ s c) < ep (at_ (put s c (Side e PNone (no (at_ s c)) false false (out (at_ s c))) []) c) /\
      ~ burnt s c (ep (at_ s c)) (no (at_ s c)) /\
      (ep (at_ s c) < ep (at_ (put s c (Side e PNone (no (at_ s c)) false false (out (at_ s c))) []) (negb c)) \/
       still (at_ (put s c (Side e PNone (no (at_ s c)) false false (out (at_ s c))) []) (negb c))
             (ep (at_ s c)) (no (at_ s c)))).
    rewrite !AP, eqb_reflx. replace (Bool.eqb c (negb c)) with false by (destruct c; auto).
    split; [auto|]. split; auto.
    destruct (v_pf s I c H1) as (m & M & W & A & S & N).
    destruct (v_fenced s I m M S) as [X|[X|X]]; rewrite W, A in X; auto.
    + rewrite N in X. auto.
    + rewrite negb_involutive, N in X. tauto.
  - (* LeaveFault *) frame I. intros e' n (A & B & C). left. lia.
Qed.

Theorem reach_inv s : reach s -> Inv s.
Proof. induction 1; eauto using inv_init, step_inv. Qed.

Theorem ordered_leave_has_nothing_outstanding s b e s' : Inv s -> step s (LeaveOrdered b e) s' ->
  out (at_ s b) = false /\ (ep (at_ s b) < ep (at_ s (negb b)) \/
                            (ep (at_ s (negb b)) = ep (at_ s b) /\ out (at_ s (negb b)) = false)).
Proof.
  intros I H. inversion H; subst. split; [apply (v_out s I); auto|].
  destruct (v_pf s I b) as (m & M & W & A & S & N); auto.
  destruct (v_fenced s I m M S) as [L|[(E1 & E2 & E3)|B]]; rewrite W, A in *.
  - left; auto.
  - right. split; auto. apply (v_out s I). auto.
  - rewrite negb_involutive in B. rewrite N in B.
    pose proof (v_burnt s I b _ B ltac:(auto) eq_refl). congruence.
Qed.

(* The other end stays fenced, with nothing outstanding, until it has left as well. *)
Theorem the_other_end_waits s b e n : Inv s -> In (b, e, n) (left s) ->
  e < ep (at_ s (negb b)) \/ out (at_ s (negb b)) = false.
Proof.
  intros I L. destruct (v_left s I b e n L) as (_ & _ & [?|(A & B & C)]); auto.
  right. apply (v_out s I). auto.
Qed.

Corollary an_ordered_switch_repeats_nothing s b e s' : reach s -> step s (LeaveOrdered b e) s' ->
  out (at_ s b) = false /\ (ep (at_ s b) < ep (at_ s (negb b)) \/
                            (ep (at_ s (negb b)) = ep (at_ s b) /\ out (at_ s (negb b)) = false)).
Proof. eauto using reach_inv, ordered_leave_has_nothing_outstanding. Qed.

(* Not vacuous: both fence, one leaves, the other waits. *)
Definition s1 := put init false (Side 0 Prep 1 false false false) [Msg false 0 Asks 1].
Definition s2 := put s1 true (Side 0 Prep 1 false false false) [Msg true 0 Asks 1; Msg true 0 Cancels 0].
Definition s3 := put s2 false (Side 0 Fenced 1 false false false) [Msg false 0 IsFenced 1; Msg false 0 Asks 1].
Definition s4 := put s3 true (Side 0 Fenced 1 false false false) [Msg true 0 IsFenced 1; Msg true 0 Asks 1].
Definition s5 := put s4 true (Side 0 Fenced 1 true false false) [].
Example happens : exists s', reach s5 /\ step s5 (LeaveOrdered true 1) s' /\
  left s' = [(true, 0, 1)] /\ ep (sr s') = 1 /\ ph (sf s') = Fenced.
Proof.
  eexists. split; [|split; [apply (SLeaveOrdered s5 true 1 (sr s5)); auto|auto]].
  apply (R1 s4 (HearFenced true)); [apply (R1 s3 (Fence true)); [apply (R1 s2 (Fence false));
    [apply (R1 s1 (HearAsks true 1 true)); [apply (R1 init (Begin false 1)); [apply R0|]|]|]|]|].
  - apply (SBegin init false 1 (sf init)); auto. intros [X|X]; discriminate.
  - apply (SHearAsks s1 true 1 (sr s1) true); auto. exists (Msg false 0 Asks 1). cbn. auto.
  - apply (SFence s2 false (sf s2)); auto.
  - apply (SFence s3 true (sr s3)); auto.
  - apply (SHearFenced s4 true (sr s4)); auto. { right; auto. }
    exists (Msg false 0 IsFenced 1). cbn. auto 10.
Qed.

(* Rules taken out, by their names in docs/model. The own FENCED is enough to leave: all that LeaveOrdered asks for but
   the peer's word is there, and the peer has something outstanding. *)
Definition w2 := put s2 true (Side 0 Prep 1 false false true) [].
Definition w3 := put w2 false (Side 0 Fenced 1 false false false) [Msg false 0 IsFenced 1; Msg false 0 Asks 1].
Example leave_without_peer : exists s, reach s /\ ph (sf s) = Fenced /\ gonesb (sf s) = false /\
  ep (sf s) = ep (sr s) /\ out (sr s) = true.
Proof.
  exists w3. split; [|cbn; auto].
  apply (R1 w2 (Fence false)); [apply (R1 s2 (Work true)); [apply (R1 s1 (HearAsks true 1 true));
    [apply (R1 init (Begin false 1)); [apply R0|]|]|]|].
  - apply (SBegin init false 1 (sf init)); auto. intros [X|X]; discriminate.
  - apply (SHearAsks s1 true 1 (sr s1) true); auto. exists (Msg false 0 Asks 1). cbn. auto.
  - apply (SWork s2 true (sr s2)); auto. discriminate.
  - apply (SFence w2 false (sf w2)); auto.
Qed.
(* After its own FENCED a side goes back by itself: the peer has left, and there is work again. *)
Example back_after_fenced : exists s' s'', step s5 (LeaveOrdered true 1) s' /\
  step (put s' false (Side 0 Cancel 1 false false false) [Msg false 0 Cancels 1]) (Work false) s'' /\
  In (true, 0, 1) (left s'') /\ ep (sf s'') = 0 /\ out (sf s'') = true.
Proof.
  eexists. eexists. split; [apply (SLeaveOrdered s5 true 1 (sr s5)); auto|].
  split; [eapply SWork; [reflexivity | discriminate]|]. cbn. auto.
Qed.
