(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* What holds of a whole connection (Whole.v): it is a run of all that it is made of, so the promises hold of it; an
   ordered switch lays nothing again; the application gets what it should, and its own errors are final. *)
From Coq Require Import Arith List Bool Lia.
From Shift Require Import Dir Invariant Steps Promises Whole.
From Shift Require Switch.
Import ListNotations.

Section Top.
Variable kd : bool -> nat -> kind.
Variable fd : bool -> nat -> bool.
Notation wstep := (wstep kd fd). Notation moves := (moves kd fd). Notation wreachable := (wreachable kd fd).
Notation wrun := (wrun kd fd).

Lemma half_put w b x k c : half (put w b x k) c = if Bool.eqb b c then x else half w c.
Proof. destruct b, c; reflexivity. Qed.
Lemma sw_put w b x k : sw (put w b x k) = k.
Proof. reflexivity. Qed.

(* ---- a run of all that it is made of ------------------------------------------------------------- *)

Definition sound w := (forall b, reachable (kd b) (fd b) (dir w b)) /\ Switch.reach (sw w) /\
  (forall b, Switch.out (Switch.at_ (sw w) b) = outstanding (dir w b) /\ Switch.ep (Switch.at_ (sw w) b) = sep (dir w b)) /\
  (forall b, exists more, log (dir w b) = took (half w b) ++ more).

(* What each label of a direction leaves as it is. *)
Lemma step_keeps kk ff s l s' : step kk ff s l = Some s' ->
  sep s' = match l with Leave e => e | _ => sep s end /\
  act s' = match l with Settle _ _ => sep s | _ => act s end /\ (exists more, log s' = log s ++ more).
Proof.
  unfold step. intros H. destruct l; try (destruct (heard s); [|discriminate]); cbv zeta in H;
    try (apply guard_some in H as [_ H]); try (injection H as H); subst s';
    (split; [reflexivity|]; split; [reflexivity|]);
    try (exists []; symmetry; apply app_nil_r).
  simpl. destruct (is_two kk (cp (car s e))); [eexists; reflexivity|exists []; symmetry; apply app_nil_r].
Qed.
Lemma leaving_keeps kk ff s l s' : step kk ff s l = Some s' -> match l with Leave _ | RLeave _ => True | _ => False end ->
  outstanding s' = outstanding s.
Proof.
  unfold step, outstanding. intros H K. destruct l; try contradiction; apply guard_some in H as [_ H];
    subst s'; reflexivity.
Qed.

Lemma put_side k b x ms c : Switch.at_ (Switch.put k b x ms) c = if Bool.eqb b c then x else Switch.at_ k c.
Proof. apply Switch.at_put. Qed.

(* The steps of the switch that are its own leave the epochs, and what is outstanding. *)
Lemma turn_keeps k l k' c : turns l = true -> Switch.Inv k -> Switch.exec k l = Some k' ->
  Switch.out (Switch.at_ k' c) = Switch.out (Switch.at_ k c) /\ Switch.ep (Switch.at_ k' c) = Switch.ep (Switch.at_ k c).
Proof.
  intros T I H. apply Switch.exec_is_step in H. destruct H; try discriminate; subst x; rewrite put_side;
    destruct (Bool.eqb b c) eqn:E; auto; apply eqb_prop in E; subst; simpl; auto.
Qed.
Lemma sync_ok k b s k' : sync k b s = Some k' -> Switch.reach k -> Switch.reach k' /\
  (forall c, Switch.out (Switch.at_ k' c) = (if Bool.eqb b c then outstanding s else Switch.out (Switch.at_ k c)) /\
             Switch.ep (Switch.at_ k' c) = Switch.ep (Switch.at_ k c)).
Proof.
  unfold sync. cbv zeta. intros H R. destruct (Bool.eqb _ _) eqn:Q.
  - inversion H; subst. apply eqb_prop in Q. split; auto. intros c. split; auto.
    destruct (Bool.eqb b c) eqn:E; auto. apply eqb_prop in E; subst; auto.
  - apply Switch.exec_is_step in H. split; [eauto using Switch.R1|]. intros c.
    destruct (outstanding s); inversion H; subst; rewrite put_side;
      destruct (Bool.eqb b c) eqn:E; auto; apply eqb_prop in E; subst; simpl; auto.
Qed.

Lemma moves_sound w b l w' : sound w -> moves w b l = Some w' ->
  match l with Leave _ => False | _ => True end -> sound w'.
Proof.
  unfold Whole.moves. intros (D & S & O & T) H NL.
  destruct (step _ _ _ _) as [s|] eqn:E; [|discriminate]. destruct (sync _ _ _) as [k|] eqn:Y; [|discriminate].
  injection H as H; subst w'. destruct (step_keeps _ _ _ _ _ E) as (P & _ & more & L).
  destruct (sync_ok _ _ _ _ Y S) as (S' & K). unfold sound, dir. setoid_rewrite half_put. setoid_rewrite sw_put.
  split; [|split; [auto|split]]; intros c; try (destruct (K c) as (K1 & K2); rewrite K1, K2);
    destruct (Bool.eqb b c) eqn:Q; try apply D; try apply O; try apply T; apply eqb_prop in Q; subst c; simpl.
  - eapply reachable_step; [apply D|exact E].
  - split; auto. rewrite P. destruct (O b) as (_ & O2). rewrite O2. destruct l; auto; contradiction.
  - destruct (T b) as [m M]. unfold dir in *. rewrite L, M. exists (m ++ more). apply app_assoc_reverse.
Qed.

Lemma wstep_sound w l w' : sound w -> wstep w l = Some w' -> sound w'.
Proof.
  intros A H. destruct l; unfold Whole.wstep in H; cbv zeta in H.
  - destruct (alone l) eqn:L; [|discriminate]. eapply moves_sound; eauto. destruct l; auto; discriminate.
  - destruct (step _ _ _ (Leave e)) as [s|] eqn:E1; [|discriminate].
    destruct (step _ _ _ (RLeave e)) as [r|] eqn:E2; [|discriminate].
    destruct (Switch.exec _ _) as [k|] eqn:E3; [|discriminate]. injection H as H; subst w'.
    destruct A as (D & S & O & T). apply Switch.exec_is_step in E3.
    destruct (step_keeps _ _ _ _ _ E1) as (P1 & _ & m1 & L1). destruct (step_keeps _ _ _ _ _ E2) as (P2 & _ & m2 & L2).
    pose proof (leaving_keeps _ _ _ _ _ E1 I) as Q1. pose proof (leaving_keeps _ _ _ _ _ E2 I) as Q2.
    assert (N : forall c, Bool.eqb b (negb c) = negb (Bool.eqb b c)) by (intros c; destruct b, c; reflexivity).
    assert (K : forall c, Switch.out (Switch.at_ k c) = Switch.out (Switch.at_ (sw w) c) /\
              Switch.ep (Switch.at_ k c) = if Bool.eqb b c then e else Switch.ep (Switch.at_ (sw w) c)).
    { intros c. pose proof (Switch.v_out _ (Switch.reach_inv _ S) b) as VO.
      destruct ordered; inversion E3; subst; unfold Switch.at_; destruct b, c; simpl in *; auto; split; auto;
        rewrite VO; auto. }
    unfold sound, dir. setoid_rewrite half_put. setoid_rewrite half_put. setoid_rewrite sw_put.
    split; [|split; [eauto using Switch.R1|split]]; intros c; try (destruct (K c) as (K1 & K2); rewrite K1, K2);
      destruct (O c) as (O1 & O2); try rewrite O1; try rewrite O2; unfold dir in *;
      destruct (Bool.eqb b c) eqn:Q; [apply eqb_prop in Q; subst c|assert (c = negb b) by (destruct b, c; auto; discriminate); subst c
        |apply eqb_prop in Q; subst c|assert (c = negb b) by (destruct b, c; auto; discriminate); subst c
        |apply eqb_prop in Q; subst c|assert (c = negb b) by (destruct b, c; auto; discriminate); subst c];
      repeat rewrite eqb_reflx; try (replace (Bool.eqb (negb b) b) with false by (destruct b; auto)); simpl.
    + eapply reachable_step; [apply D|exact E1].
    + eapply reachable_step; [apply D|exact E2].
    + auto.
    + auto.
    + destruct (T b) as [m M]. rewrite L1, M. exists (m ++ m1). apply app_assoc_reverse.
    + destruct (T (negb b)) as [m M]. rewrite L2, M. exists (m ++ m2). apply app_assoc_reverse.
  - destruct (turns l) eqn:T; [|discriminate]. destruct (Switch.exec _ _) as [k|] eqn:E; [|discriminate].
    injection H as H; subst w'. destruct A as (D & S & O & L).
    split; [exact D|]. split; [simpl; apply Switch.exec_is_step in E; eauto using Switch.R1|]. split; [|exact L].
    intros c. destruct (turn_keeps _ _ _ c T (Switch.reach_inv _ S) E) as (A & B). simpl. rewrite A, B. apply O.
  - destruct (_ && _); [|discriminate]. eapply moves_sound; eauto. exact I.
  - destruct (nth_error _ _) as [[m q]|] eqn:E; [|discriminate]. destruct (_ && _) eqn:G; [|discriminate].
    injection H as H; subst w'. boole. subst. destruct A as (D & S & O & L). unfold sound, dir in *.
    setoid_rewrite half_put. setoid_rewrite sw_put.
    split; [|split; [auto|split]]; intros c; destruct (Bool.eqb b c) eqn:Q; auto; apply eqb_prop in Q; subst c; simpl; auto.
    destruct (L b) as [more M]. rewrite M in *. rewrite nth_error_app2 in E by lia. rewrite Nat.sub_diag in E.
    destruct more as [|p more]; [discriminate|]. injection E as ->. exists more. rewrite <- app_assoc. reflexivity.
  - injection H as H; subst w'. destruct A as (D & S & O & L). unfold sound, dir in *.
    setoid_rewrite half_put. setoid_rewrite sw_put.
    split; [|split; [auto|split]]; intros c; destruct (Bool.eqb b c) eqn:Q; auto; apply eqb_prop in Q; subst c; simpl; auto.
Qed.

Theorem whole_is_all w : wreachable w -> sound w.
Proof.
  intros [ls H].
  assert (G : forall ls i, sound i -> wrun ls i = Some w -> sound w).
  { clear. induction ls; simpl; intros i R E. { inversion E; subst; auto. }
    destruct (wstep i a) eqn:Q; try discriminate. eauto using wstep_sound. }
  eapply G; eauto. split; [intros []; exists []; reflexivity|]. split; [apply Switch.R0|].
  split; [intros []; split; reflexivity|]. intros []; exists []; reflexivity.
Qed.

(* ---- what follows -------------------------------------------------------------------------------- *)

Lemma same_head (x : list nat) : forall y p q, x ++ p = y ++ q -> length x = length y -> x = y.
Proof.
  induction x; intros [|z y] p q E L; try discriminate; auto. injection E as -> E. injection L as L. f_equal. eauto.
Qed.
(* P1, P2 at the top: the application has the two-sided requests in posting order, from the first on, none left out,
   none twice, and each in the receive that it belongs to. *)
Theorem the_application_receives_in_order w b : wreachable w -> let t := took (half w b) in
  map fst t = firstn (length t) (twos (kd b) (cp (car (dir w b) (act (dir w b))))) /\ map snd t = seq 0 (length t).
Proof.
  intros R. cbv zeta. destruct (whole_is_all w R) as (D & _ & _ & T). destruct (T b) as [more M].
  destruct (two_sided_exactly_once _ _ _ (D b)) as (A & B). rewrite M, map_app in A, B. split.
  - rewrite <- A, firstn_app, map_length, Nat.sub_diag. simpl. rewrite app_nil_r.
    rewrite <- (map_length fst) at 1. rewrite firstn_all. reflexivity.
  - rewrite app_length, seq_app in B.
    assert (L : length (map snd (took (half w b))) = length (seq 0 (length (took (half w b))))).
    { rewrite map_length, seq_length. reflexivity. }
    exact (same_head _ _ _ _ B L).
Qed.

(* P6: behind an error of its own nothing is laid into another carrier: it is not retried. *)
Theorem own_error_is_final w l w' b : wstep w l = Some w' -> own (half w b) = true ->
  own (half w' b) = true /\ act (dir w' b) = act (dir w b).
Proof.
  assert (M : forall c k, (forall r p, k = Settle r p -> own (half w c) = false) -> moves w c k = Some w' ->
              own (half w b) = true -> own (half w' b) = true /\ act (dir w' b) = act (dir w b)).
  { unfold Whole.moves. intros c k NS H O. destruct (step _ _ _ _) as [s|] eqn:E; [|discriminate].
    destruct (sync _ _ _); [|discriminate]. injection H as H; subst w'. unfold dir. rewrite !half_put.
    destruct (Bool.eqb c b) eqn:Q; auto. apply eqb_prop in Q; subst c. simpl. split; auto.
    destruct (step_keeps _ _ _ _ _ E) as (_ & A & _). rewrite A. destruct k; auto. rewrite (NS _ _ eq_refl) in O. discriminate. }
  intros H O. destruct l; unfold Whole.wstep in H; cbv zeta in H.
  - destruct (alone l) eqn:L; [|discriminate]. apply (M _ _) in H; auto. intros r p ->. discriminate.
  - destruct (step _ _ _ (Leave e)) as [s|] eqn:E1; [|discriminate].
    destruct (step _ _ _ (RLeave e)) as [r|] eqn:E2; [|discriminate].
    destruct (Switch.exec _ _) as [k|]; [|discriminate]. injection H as H; subst w'.
    destruct (step_keeps _ _ _ _ _ E1) as (_ & A1 & _). destruct (step_keeps _ _ _ _ _ E2) as (_ & A2 & _).
    unfold dir in *. rewrite !half_put. destruct b0, b; simpl; auto.
  - destruct (turns l); [|discriminate]. destruct (Switch.exec _ _); [|discriminate]. injection H as H; subst w'. auto.
  - destruct (negb _ && _ && _) eqn:G; [|discriminate]. apply (M _ _) in H; auto. intros. boole. auto.
  - destruct (nth_error _ _) as [[m q]|]; [|discriminate]. destruct (_ && _); [|discriminate]. injection H as H; subst w'.
    unfold dir. rewrite !half_put. destruct (Bool.eqb b0 b) eqn:Q; auto. apply eqb_prop in Q; subst; auto.
  - injection H as H; subst w'. unfold dir. rewrite !half_put.
    destruct (Bool.eqb b0 b) eqn:Q; auto. apply eqb_prop in Q; subst; auto.
Qed.

(* 9: who leaves because both are fenced has rung nothing that is not complete; nor has the other end, or it has left. *)
Theorem an_ordered_leave_has_nothing_outstanding w b e w' : wreachable w -> wstep w (Go b true e) = Some w' ->
  outstanding (dir w b) = false /\
  (sep (dir w b) < sep (dir w (negb b)) \/ outstanding (dir w (negb b)) = false).
Proof.
  intros R H. destruct (whole_is_all w R) as (_ & S & O & _). unfold Whole.wstep in H. cbv zeta in H.
  destruct (step _ _ _ (Leave e)); [|discriminate]. destruct (step _ _ _ (RLeave e)); [|discriminate].
  destruct (Switch.exec _ _) as [k|] eqn:E; [|discriminate]. apply Switch.exec_is_step in E.
  destruct (Switch.an_ordered_switch_repeats_nothing _ _ _ _ S E) as (A & B).
  destruct (O b) as (O1 & O2), (O (negb b)) as (O3 & O4). rewrite <- O1, <- O2, <- O3, <- O4.
  split; auto. destruct B as [B|[_ B]]; auto.
Qed.

(* ... so that settling lays nothing again, and nothing of the old carrier at all. *)
Theorem nothing_outstanding_lays_nothing_again w b p e f w' : wreachable w -> wstep w (Lay b false p e f) = Some w' ->
  outstanding (dir w b) = false ->
  let n := car (dir w' b) (act (dir w' b)) in again n = [] /\ hi n <= lo n /\ done (dir w' b) = done (dir w b).
Proof.
  intros R H O. cbv zeta. destruct (whole_is_all w R) as (D & _ & _ & _).
  pose proof (reachable_inv _ _ _ (D b)) as I. unfold Whole.wstep in H.
  destruct (_ && _ && _); [|discriminate]. unfold Whole.moves in H.
  destruct (step _ _ _ _) as [s|] eqn:E; [|discriminate]. destruct (sync _ _ _); [|discriminate].
  injection H as H; subst w'. unfold dir at 1 2 3 4 5 6 7. rewrite half_put, eqb_reflx. simpl d.
  unfold outstanding in O. boole. unfold step in E. destruct (heard (dir w b)) as [m|]; [|discriminate].
  cbv zeta in E. apply guard_some in E as [G E]. subst s. simpl. rewrite upd_same. simpl.
  boole. unfold settle. simpl. set (o := car (dir w b) (act (dir w b))) in *. set (a := done (dir w b)) in *.
  assert (PL : pl o <= hi o).
  { pose proof (i_pl _ _ _ I). pose proof (i_nb _ _ _ I). pose proof (i_ex _ _ _ I). unfold o. lia. }
  replace (hi o - a) with 0 by lia. simpl.
  assert (RA : region (kd b) (count m) a 0 = a) by (simpl; destruct (_ <=? _); auto).
  simpl in RA. rewrite RA. replace (hi o - a) with 0 by lia. simpl.
  replace (Nat.max a p) with a by lia. rewrite Nat.sub_diag. simpl.
  unfold reads_again, upto. replace (hi o - a) with 0 by lia. simpl. auto.
Qed.
End Top.
