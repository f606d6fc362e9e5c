(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Both directions of a connection. Each side has one epoch: leaving it for the next is one step, as a
   sender and as a receiver; a side settles only when its own count is final (core/move.c, AWAITING_COUNT).
   Every joint run is, in each direction, a run of Dir.v, so all promises hold for both. *)
From Coq Require Import Arith List Bool Lia.
From Shift Require Import Dir Invariant Steps Promises.
Import ListNotations.

Section Joint.
(* Of the requests that side false, true posts. *)
Variable kd : bool -> nat -> kind.
Variable fd : bool -> nat -> bool.

(* d b: requests of side b. Its sender is b, its receiver negb b. *)
Record joint := J { df : st; dt : st }.
Definition dir (j : joint) (b : bool) := if b then dt j else df j.
Definition set_dir (j : joint) (b : bool) s := if b then J (df j) s else J s (dt j).
Definition jinit := J init init.

Inductive jlabel :=
| One (b : bool) (l : label)  (* what one direction does alone *)
| JLeave (b : bool) (e : nat) (* b leaves, or is stranded and leaves *)
| JQuiesce (b : bool)         (* b's QPs of older carriers are in ERR and flushed *)
| JSettle (b recall : bool) (proof : nat).

Definition alone (l : label) :=
  match l with Leave _ | RLeave _ | Quiesce | RQuiesce | Settle _ _ => false | _ => true end.
(* A side whose NIC hangs does not say that it is quiesced. *)
Definition flushed (s : st) := forallb (fun e => negb (is_sick s e) || (e <? gone s)) (upto 0 (rep s)).

Definition at_dir j b l :=
  match step (kd b) (fd b) (dir j b) l with Some s => Some (set_dir j b s) | None => None end.
Definition jstep (j : joint) (l : jlabel) : option joint :=
  match l with
  | One b l => if alone l then at_dir j b l else None
  | JLeave b e => match at_dir j b (Leave e) with Some j' => at_dir j' (negb b) (RLeave e) | None => None end
  | JQuiesce b =>
      match at_dir j (negb b) RQuiesce with
      | Some j' => if flushed (dir j (negb b)) then at_dir j' b Quiesce else Some j'
      | None => None
      end
  | JSettle b r p => if fin (dir j (negb b)) then at_dir j b (Settle r p) else None
  end.

Fixpoint jrun ls j := match ls with [] => Some j | l :: ls =>
  match jstep j l with Some j' => jrun ls j' | None => None end end.
Definition jreachable j := exists ls, jrun ls jinit = Some j.

Lemma dir_set j b s c : dir (set_dir j b s) c = if Bool.eqb b c then s else dir j c.
Proof. destruct b, c; reflexivity. Qed.

Lemma at_dir_ok j b l j' : at_dir j b l = Some j' ->
  (forall c, reachable (kd c) (fd c) (dir j c)) -> forall c, reachable (kd c) (fd c) (dir j' c).
Proof.
  unfold at_dir. destruct (step (kd b) (fd b) (dir j b) l) eqn:E; intros H R c; inversion H; subst.
  rewrite dir_set. destruct (Bool.eqb b c) eqn:Q; auto. apply eqb_prop in Q. subst.
  eapply reachable_step; eauto.
Qed.

Lemma jstep_ok j l j' : jstep j l = Some j' ->
  (forall c, reachable (kd c) (fd c) (dir j c)) -> forall c, reachable (kd c) (fd c) (dir j' c).
Proof.
  destruct l; unfold jstep; intros H R.
  - destruct (alone l); try discriminate. exact (at_dir_ok _ _ _ _ H R).
  - destruct (at_dir j b (Leave e)) as [i|] eqn:E; try discriminate.
    exact (at_dir_ok _ _ _ _ H (at_dir_ok _ _ _ _ E R)).
  - destruct (at_dir j (negb b) RQuiesce) as [i|] eqn:E; try discriminate.
    destruct (flushed _); [exact (at_dir_ok _ _ _ _ H (at_dir_ok _ _ _ _ E R))|].
    inversion H; subst. exact (at_dir_ok _ _ _ _ E R).
  - destruct (fin _); try discriminate. exact (at_dir_ok _ _ _ _ H R).
Qed.

Theorem both_directions j : jreachable j -> forall b, reachable (kd b) (fd b) (dir j b).
Proof.
  intros [ls H].
  assert (G : forall ls i, (forall c, reachable (kd c) (fd c) (dir i c)) ->
              jrun ls i = Some j -> forall c, reachable (kd c) (fd c) (dir j c)).
  { clear. induction ls; simpl; intros i R E.
    - inversion E; subst; auto.
    - destruct (jstep i a) eqn:Q; try discriminate. eapply IHls; [|eauto]. eauto using jstep_ok. }
  eapply G; eauto. intros c. exists []. destruct c; reflexivity.
Qed.

(* One epoch a side. *)
Lemma step_epochs kk ff s l s' : step kk ff s l = Some s' ->
  sep s' = match l with Leave e => e | _ => sep s end /\ rep s' = match l with RLeave e => e | _ => rep s end.
Proof.
  unfold step. intros H. destruct l; try (destruct (heard s); [|discriminate]); cbv zeta in H;
    try (apply guard_some in H as [_ H]); try (injection H as H); try (subst s'; split;
    reflexivity).
Qed.

Theorem one_epoch j : jreachable j -> forall b, sep (dir j b) = rep (dir j (negb b)).
Proof.
  intros [ls H].
  assert (A : forall i c k i', at_dir i c k = Some i' -> forall b,
    sep (dir i' b) = (if Bool.eqb c b then match k with Leave e => e | _ => sep (dir i b) end else sep (dir i b)) /\
    rep (dir i' b) = (if Bool.eqb c b then match k with RLeave e => e | _ => rep (dir i b) end else rep (dir i b))).
  { clear. unfold at_dir. intros i c k i' H b. destruct (step _ _ _ _) as [s|] eqn:E; inversion H;
    subst.
    apply step_epochs in E. rewrite dir_set. destruct (Bool.eqb c b) eqn:Q; auto.
    apply eqb_prop in Q; subst. auto. }
  assert (P : forall i l i', jstep i l = Some i' -> (forall b, sep (dir i b) = rep (dir i (negb b))) ->
              forall b, sep (dir i' b) = rep (dir i' (negb b))).
  { clear H. intros i l i' E R c. pose proof (R true) as Rt. pose proof (R false) as Rf.
    simpl in Rt, Rf.
    destruct l; unfold jstep in E.
    - destruct (alone l) eqn:L; try discriminate.
      destruct (A _ _ _ _ E c), (A _ _ _ _ E (negb c)). rewrite H, H2.
      destruct l; try discriminate; destruct (Bool.eqb b c), (Bool.eqb b (negb c)); auto.
    - destruct (at_dir i b (Leave e)) as [k|] eqn:E1; try discriminate.
      destruct (A _ _ _ _ E1 c), (A _ _ _ _ E1 (negb c)), (A _ _ _ _ E c), (A _ _ _ _ E (negb c)).
      destruct b, c; simpl in *; congruence.
    - destruct (at_dir i (negb b) RQuiesce) as [k|] eqn:E1; try discriminate.
      destruct (A _ _ _ _ E1 c), (A _ _ _ _ E1 (negb c)). destruct (flushed _).
      + destruct (A _ _ _ _ E c), (A _ _ _ _ E (negb c)). destruct b, c; simpl in *; congruence.
      + inversion E; subst. destruct b, c; simpl in *; congruence.
    - destruct (fin _); try discriminate. destruct (A _ _ _ _ E c), (A _ _ _ _ E (negb c)).
      destruct b, c; simpl in *; congruence. }
  assert (G : forall ls i, (forall b, sep (dir i b) = rep (dir i (negb b))) ->
              jrun ls i = Some j -> forall b, sep (dir j b) = rep (dir j (negb b))).
  { clear H. induction ls0; simpl; intros i R E.
    - inversion E; subst; auto.
    - destruct (jstep i a) eqn:Q; try discriminate. eapply IHls0; [|eauto]. eauto. }
  eapply G; eauto. intros []; reflexivity.
Qed.

(* The promises, for a whole connection. *)
Theorem joint_two_sided_exactly_once j b : jreachable j -> let s := dir j b in
  map fst (log s) = twos (kd b) (cp (car s (act s))) /\ map snd (log s) = seq 0 (length (log s)).
Proof. intros R. eapply two_sided_exactly_once. apply both_directions. auto. Qed.

Theorem joint_writes_before_receive j b n r m : jreachable j -> In (n, r) (log (dir j b)) -> m < n ->
  is_wr (kd b) m = true -> In m (wrs (dir j b)).
Proof. intros R. eapply writes_before_receive. apply both_directions. auto. Qed.

Theorem joint_atomic_at_most_once j b : jreachable j -> NoDup (ats (dir j b)).
Proof. intros R. eapply atomic_at_most_once. apply both_directions. auto. Qed.

(* Leaves are joint: who has settled for an epoch has a peer that has counted for it. *)
Theorem joint_never_settles_ahead j b : jreachable j -> act (dir j b) <= sep (dir j (negb b)).
Proof.
  intros R. rewrite (one_epoch j R (negb b)), negb_involutive.
  pose proof (i_seal _ _ _ (reachable_inv _ _ _ (both_directions j R b))). lia.
Qed.
End Joint.
