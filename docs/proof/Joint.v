(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Both directions of a connection. Each side has one epoch: leaving it for the next is one step, as a
   sender and as a receiver; a side settles only when its own count is final (core_move.c, SETTLING).
   Every joint run is, in each direction, a run of Dir.v, so all promises hold for both. *)
From Coq Require Import Arith List Bool Lia.
From Shift Require Import Dir.
Import ListNotations.

Section Joint.
Variable kd : bool -> nat -> kind.   (* of the requests that side false, true posts *)

(* d b: requests of side b. Its sender is b, its receiver negb b. *)
Record joint := J { df : st; dt : st }.
Definition dir (j : joint) (b : bool) := if b then dt j else df j.
Definition set_dir (j : joint) (b : bool) s := if b then J (df j) s else J s (dt j).
Definition jinit := J init init.

Inductive jlabel :=
| One (b : bool) (l : label)  (* what one direction does alone *)
| JLeave (b : bool) (e : nat) (* b leaves, or is stranded and leaves *)
| JQuiesce (b : bool)         (* b's QPs of older carriers are in ERR and flushed *)
| JSettle (b : bool).

Definition alone (l : label) :=
  match l with Leave _ | RLeave _ | Quiesce | RQuiesce | Settle => false | _ => true end.
(* A side whose NIC hangs does not say that it is quiesced. *)
Definition flushed (s : st) := forallb (fun e => negb (rsick s e) || (e <? gone s)) (seq 0 (rep s)).

Definition at_dir j b l :=
  match step (kd b) (dir j b) l with Some s => Some (set_dir j b s) | None => None end.
Definition jstep (j : joint) (l : jlabel) : option joint :=
  match l with
  | One b l => if alone l then at_dir j b l else None
  | JLeave b e => match at_dir j b (Leave e) with Some j' => at_dir j' (negb b) (RLeave e) | None => None end
  | JQuiesce b =>
      match at_dir j (negb b) RQuiesce with
      | Some j' => if flushed (dir j (negb b)) then at_dir j' b Quiesce else Some j'
      | None => None
      end
  | JSettle b => if fin (dir j (negb b)) then at_dir j b Settle else None
  end.

Fixpoint jrun ls j := match ls with [] => Some j | l :: ls =>
  match jstep j l with Some j' => jrun ls j' | None => None end end.
Definition jreachable j := exists ls, jrun ls jinit = Some j.

Lemma dir_set j b s c : dir (set_dir j b s) c = if Bool.eqb b c then s else dir j c.
Proof. destruct b, c; reflexivity. Qed.

Lemma run_app k ls ls' : forall s, run k (ls ++ ls') s =
  match run k ls s with Some s' => run k ls' s' | None => None end.
Proof. induction ls; simpl; intros; auto. destruct (step k s a); auto. Qed.

Lemma reachable_step k s l s' : reachable k s -> step k s l = Some s' -> reachable k s'.
Proof. intros [ls R] H. exists (ls ++ [l]). rewrite run_app, R. simpl. rewrite H. auto. Qed.

Lemma at_dir_ok j b l j' : at_dir j b l = Some j' ->
  (forall c, reachable (kd c) (dir j c)) -> forall c, reachable (kd c) (dir j' c).
Proof.
  unfold at_dir. destruct (step (kd b) (dir j b) l) eqn:E; intros H R c; inversion H; subst.
  rewrite dir_set. destruct (Bool.eqb b c) eqn:Q; auto. apply eqb_prop in Q. subst.
  eapply reachable_step; eauto.
Qed.

Lemma jstep_ok j l j' : jstep j l = Some j' ->
  (forall c, reachable (kd c) (dir j c)) -> forall c, reachable (kd c) (dir j' c).
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

Theorem both_directions j : jreachable j -> forall b, reachable (kd b) (dir j b).
Proof.
  intros [ls H].
  assert (G : forall ls i, (forall c, reachable (kd c) (dir i c)) ->
              jrun ls i = Some j -> forall c, reachable (kd c) (dir j c)).
  { clear. induction ls; simpl; intros i R E.
    - inversion E; subst; auto.
    - destruct (jstep i a) eqn:Q; try discriminate. eapply IHls; [|eauto]. eauto using jstep_ok. }
  eapply G; eauto. intros c. exists []. destruct c; reflexivity.
Qed.

(* One epoch a side. *)
Theorem one_epoch j : jreachable j -> forall b, sep (dir j b) = rep (dir j (negb b)).
Proof.
  intros [ls H].
  assert (P : forall i l i', jstep i l = Some i' -> (forall b, sep (dir i b) = rep (dir i (negb b))) ->
              forall b, sep (dir i' b) = rep (dir i' (negb b))).
  { clear. intros i l i' E R.
    assert (A : forall j c k j', alone k = true -> at_dir j c k = Some j' ->
      forall b, sep (dir j' b) = sep (dir j b) /\ rep (dir j' b) = rep (dir j b)).
    { clear. unfold at_dir. intros j c k j' A H b. destruct (step _ _ _) eqn:E; inversion H; subst.
      rewrite dir_set. destruct (Bool.eqb c b) eqn:Q; auto. apply eqb_prop in Q; subst.
      destruct k; simpl in *; try discriminate;
        repeat match goal with X : guard _ _ = Some _ |- _ => apply guard_some in X as [_ X]
               | X : Some _ = Some _ |- _ => inversion X; subst; clear X end; auto. }
    destruct l; simpl in E; intros c.
    - destruct (alone l) eqn:L; try discriminate.
      destruct (A _ _ _ _ L E c), (A _ _ _ _ L E (negb c)). rewrite H, H2. auto.
    - unfold at_dir in E. destruct (step _ _ (Leave e)) eqn:E1; try discriminate.
      destruct (step _ _ (RLeave e)) eqn:E2; inversion E; subst; clear E.
      simpl in E1, E2. apply guard_some in E1 as [_ E1]. apply guard_some in E2 as [_ E2].
      subst. destruct b, c; simpl; auto; try apply (R true); try apply (R false).
    - unfold at_dir in E. simpl in E. destruct (flushed _); inversion E; subst; clear E;
        destruct b, c; simpl; auto; try apply (R true); try apply (R false).
    - destruct (fin _); try discriminate. unfold at_dir in E. simpl in E.
      destruct (heard _) eqn:Hh; try discriminate.
      destruct (guard _ _) eqn:G; inversion E; subst; clear E. apply guard_some in G as [_ G]. subst.
      destruct b, c; simpl; auto; try apply (R true); try apply (R false). }
  assert (G : forall ls i, (forall b, sep (dir i b) = rep (dir i (negb b))) ->
              jrun ls i = Some j -> forall b, sep (dir j b) = rep (dir j (negb b))).
  { induction ls0; simpl; intros i R E.
    - inversion E; subst; auto.
    - destruct (jstep i a) eqn:Q; try discriminate. eapply IHls0; [|eauto]. eauto. }
  eapply G; eauto. intros []; reflexivity.
Qed.

(* The promises, for a whole connection. *)
Theorem joint_two_sided_exactly_once j b : jreachable j ->
  map fst (log (dir j b)) = twos (kd b) (front (dir j b)) /\
  map snd (log (dir j b)) = seq 0 (length (log (dir j b))).
Proof. intros R. apply two_sided_exactly_once. apply both_directions. auto. Qed.

Theorem joint_atomic_at_most_once j b : jreachable j -> NoDup (ats (dir j b)).
Proof. intros R. eapply atomic_at_most_once. apply both_directions. auto. Qed.

(* Leaves are joint: both ends of a direction that has settled ran the same epochs, in order. *)
Theorem joint_never_settles_ahead j b : jreachable j -> act (dir j b) <= sep (dir j (negb b)).
Proof.
  intros R. rewrite (one_epoch j R (negb b)), negb_involutive.
  apply (i_rep _ _ (reachable_inv _ _ (both_directions j R b))).
Qed.
End Joint.
