(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Where exactly the boundary is. Stronger than the paper in both directions.
   Negative: the recovering side may run any adaptive program against the receiver's whole host
   (memory, receive queue, completions), with every verb there is, compare-and-swap included.
   Positive: each of the three corners of the trilemma, given up alone, is enough. *)
From Coq Require Import Arith List Bool Lia.
Import ListNotations.

Record host := Host { mem : nat -> nat; rq : list nat; cq : list nat }.
Definition wr (m : nat -> nat) a v : nat -> nat := fun x => if x =? a then v else m x.

Inductive op := Write (a v : nat) | Read (a : nat) | FADD (a d : nat) | CAS (a e n : nat) | Send (v : nat).

Definition exec (h : host) (o : op) : host * nat :=
  match o with
  | Write a v => (Host (wr (mem h) a v) (rq h) (cq h), 0)
  | Read a => (h, mem h a)
  | FADD a d => (Host (wr (mem h) a (mem h a + d)) (rq h) (cq h), mem h a)
  | CAS a e n => ((if mem h a =? e then Host (wr (mem h) a n) (rq h) (cq h) else h), mem h a)
  | Send v => (match rq h with [] => h | b :: q => Host (wr (mem h) b v) q (cq h ++ [b]) end, 0)
  end.

Definition heq h h' := (forall x, mem h x = mem h' x) /\ rq h = rq h' /\ cq h = cq h'.
Lemma heq_trans a b c : heq a b -> heq b c -> heq a c.
Proof. intros (A & B & C) (D & E & F). repeat split; intros; congruence. Qed.
Lemma heq_sym a b : heq a b -> heq b a.
Proof. intros (A & B & C). repeat split; auto. Qed.
Lemma exec_heq a b o : heq a b -> heq (fst (exec a o)) (fst (exec b o)).
Proof.
  intros (A & B & C). unfold heq. destruct o; simpl.
  - repeat split; auto. intros x; unfold wr; destruct (x =? _); auto.
  - repeat split; auto.
  - repeat split; auto. intros x; unfold wr; rewrite !A; destruct (x =? _); auto.
  - rewrite A. destruct (mem b _ =? e); simpl; repeat split; auto.
    intros x; unfold wr; destruct (x =? _); auto.
  - rewrite B. destruct (rq b) as [|y q] eqn:Q; simpl; repeat split; auto; try congruence.
    intros x; unfold wr; destruct (x =? _); auto.
Qed.

(* A recovering side: looks at the whole host, executes verbs, goes on from what they return; at the
   end tells the application the result of the request. *)
Inductive prog := Tell (r : nat) | Look (k : host -> prog) | Do (o : op) (k : nat -> prog).
Fixpoint recover (p : prog) (h : host) : host * nat :=
  match p with
  | Tell r => (h, r)
  | Look k => recover (k h) h
  | Do o k => let (h', r) := exec h o in recover (k r) h'
  end.

(* N1: without a fence the request may still be in the network (a ghost), and a verb executes
   unconditionally. Whoever is right whether the ghost is lost or late executes an idempotent request. *)
Definition right_without_fence (p : prog) o h :=
  heq (fst (recover p h)) (fst (exec h o)) /\                  (* the ghost is lost *)
  heq (fst (exec (fst (recover p h)) o)) (fst (exec h o)).     (* the ghost comes last *)

Theorem no_fence_needs_idempotence p o h : right_without_fence p o h ->
  heq (fst (exec (fst (exec h o)) o)) (fst (exec h o)).
Proof.
  intros [L G]. eapply heq_trans; [|exact G]. apply exec_heq, heq_sym, L.
Qed.

Theorem no_fence_fadd p a d h : d <> 0 -> ~ right_without_fence p (FADD a d) h.
Proof.
  intros D R. apply no_fence_needs_idempotence in R. simpl in R.
  destruct R as [R _]. specialize (R a). simpl in R. unfold wr in R. rewrite Nat.eqb_refl in R. lia.
Qed.

Theorem no_fence_send p v b q m c : ~ right_without_fence p (Send v) (Host m (b :: b :: q) c).
Proof.
  intros R. apply no_fence_needs_idempotence in R. simpl in R.
  destruct R as (_ & _ & R). apply (f_equal (@length nat)) in R. simpl in R.
  rewrite !app_length in R. simpl in R. lia.
Qed.

(* A WRITE is idempotent, but memory is used again once the request is said to be complete. *)
Theorem no_fence_write_reuse p a v w h : v <> w ->
  let after := Host (wr (mem (fst (recover p h))) a w) (rq (fst (recover p h))) (cq (fst (recover p h))) in
  mem after a = w /\ mem (fst (exec after (Write a v))) a <> w.
Proof. intros N. simpl. unfold wr. rewrite Nat.eqb_refl. auto. Qed.

(* N2: with a fence (the old QP can execute nothing more) and with the whole host to look at, the
   atomic is still undecidable: another requester may have brought the memory to the same state. *)
Definition right_with_fence (p : prog) o :=
  (forall h, heq (fst (recover p h)) (fst (exec h o)) /\              (* it was lost *)
             snd (recover p h) = snd (exec h o)) /\
  (forall h, heq (fst (recover p (fst (exec h o)))) (fst (exec h o)) /\ (* it was executed *)
             snd (recover p (fst (exec h o))) = snd (exec h o)).

Theorem fence_is_not_enough_for_fadd p a d : d <> 0 -> ~ right_with_fence p (FADD a d).
Proof.
  intros D [L E]. set (h := Host (fun _ => 0) [] []).
  destruct (E h) as [_ A]. destruct (L (fst (exec h (FADD a d)))) as [_ B]. rewrite B in A.
  simpl in A. unfold wr in A. rewrite Nat.eqb_refl in A. simpl in A. lia.
Qed.

Theorem fence_is_not_enough_for_cas p a : ~ right_with_fence p (CAS a 0 1).
Proof.
  intros [L E]. set (h := Host (fun _ => 0) [] []).
  destruct (E h) as [_ A]. destruct (L (fst (exec h (CAS a 0 1)))) as [_ B]. rewrite B in A.
  simpl in A. unfold wr in A. rewrite Nat.eqb_refl in A. discriminate.
Qed.

(* For a WRITE as well, if the receiver's application may write to that memory: exactly once is more
   than anybody can keep, and more than NCCL needs (Simple.v). *)
Theorem fence_is_not_enough_for_write_reuse p a : 
  let lost := Host (fun _ => 0) [] [] in
  let reused := Host (wr (wr (fun _ => 0) a 1) a 0) [] [] in  (* executed, taken out, zeroed *)
  (forall x, mem lost x = mem reused x) /\
  ((forall h h', (forall x, mem h x = mem h' x) -> rq h = rq h' -> cq h = cq h' ->
     mem (fst (recover p h)) a = mem (fst (recover p h')) a) ->
   ~ (mem (fst (recover p lost)) a = 1 /\ mem (fst (recover p reused)) a = 0)).
Proof.
  intros lost reused. assert (X : forall x, mem lost x = mem reused x).
  { intros x. simpl. unfold wr. destruct (x =? a); auto. }
  split; auto. intros EXT [L R]. rewrite (EXT lost reused X eq_refl eq_refl) in L. congruence.
Qed.

(* P2, opacity given up: a fence, and the count of receives, which is this connection's alone. *)
Definition settle (posted_before : nat) v : prog :=
  Look (fun h => if posted_before <? length (cq h) then Tell 0 else Do (Send v) Tell).

Theorem two_sided_with_fence_and_count n v h : length (cq h) = n -> rq h <> [] ->
  recover (settle n v) h = exec h (Send v) /\                          (* lost: it is executed *)
  recover (settle n v) (fst (exec h (Send v))) = (fst (exec h (Send v)), 0). (* executed: left alone *)
Proof.
  intros E R. unfold settle. cbn [recover]. split.
  - rewrite (proj2 (Nat.ltb_ge _ _)) by lia. reflexivity.
  - destruct (rq h) as [|b q] eqn:Q; try congruence. simpl. rewrite Q. simpl.
    rewrite app_length; simpl. rewrite (proj2 (Nat.ltb_lt _ _)) by lia. reflexivity.
Qed.

(* P1, zero-copy given up: the receiver's software takes numbered requests out of a staging ring. Any
   number of repetitions, and ghosts, are harmless for every kind of request. *)
Definition take (s : host * nat) (m : nat * op) : host * nat :=
  if fst m =? snd s then (fst (exec (fst s) (snd m)), S (snd s)) else s.

Theorem staging_is_exactly_once h n o ghosts : (forall m, In m ghosts -> fst m <= n) ->
  fold_left take ghosts (take (h, n) (n, o)) = (fst (exec h o), S n).
Proof.
  intros G. unfold take at 2. simpl. rewrite Nat.eqb_refl. simpl.
  induction ghosts as [|m l IH]; simpl in *; auto.
  assert (fst m <= n) by auto. unfold take at 2. simpl.
  destruct (Nat.eqb_spec (fst m) (S n)); [lia | apply IH; auto].
Qed.
