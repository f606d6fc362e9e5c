(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Appendix C of the SHIFT paper, as it is written: definitions C.1, Theorem C.1, Lemmas C.2-C.5 and
   Theorem 3.3 in the paper's sense (a decision is a function of what the sender has seen). *)
From Coq Require Import Arith List Bool Lia.
Import ListNotations.

Definition addr := nat.
Definition val := nat.
Definition mem := addr -> val.
Definition mem0 : mem := fun _ => 0.
Definition mem_write (m : mem) a v : mem := fun x => if x =? a then v else m x.

Inductive op := Write (a : addr) (v : val) | Read (a : addr)
              | FADD (a : addr) (d : val) | CAS (a : addr) (e n : val).
Inductive result := Done | Value (v : val) | Swap (ok : bool) (old : val).

Definition exec_op (m : mem) (o : op) : mem * result :=
  match o with
  | Write a v => (mem_write m a v, Done)
  | Read a => (m, Value (m a))
  | FADD a d => (mem_write m a (m a + d), Value (m a))
  | CAS a e n => if m a =? e then (mem_write m a n, Swap true (m a)) else (m, Swap false (m a))
  end.

Inductive event :=
| EvSend (o : op) | EvCompletion (o : op) (r : result) | EvTimeout (o : op)
| EvPacketLost (o : op) | EvAckLost (o : op)
| EvReceive (o : op) | EvExecute (o : op) (r : result)
| EvAppConsume (a : addr) (v : val) | EvAppReuse (a : addr) (v : val).
Definition trace := list event.

Definition seen e := match e with EvSend _ | EvCompletion _ _ | EvTimeout _ => true | _ => false end.
Definition sender_view : trace -> trace := filter seen.

Definition T1 o : trace := [EvSend o; EvPacketLost o; EvTimeout o].
Definition T2 o r a v w : trace :=
  [EvSend o; EvReceive o; EvExecute o r; EvAppConsume a v; EvAppReuse a w; EvAckLost o; EvTimeout o].

(* Theorem C.1 *)
Theorem indistinguishable o r a v w : sender_view (T1 o) = sender_view (T2 o r a v w).
Proof. reflexivity. Qed.

(* Memory at the receiver after a trace; a retransmission is one more execution. *)
Fixpoint replay (m : mem) (t : trace) : mem :=
  match t with
  | [] => m
  | EvExecute o _ :: t => replay (fst (exec_op m o)) t
  | EvAppReuse a v :: t => replay (mem_write m a v) t
  | _ :: t => replay m t
  end.
Definition executions (t : trace) := length (filter (fun e => match e with EvExecute _ _ => true | _ => false end) t).

(* Theorem 3.3, as the paper argues it. *)
Definition live (d : trace -> bool) := forall t o, In (EvTimeout o) t -> executions t = 0 -> d (sender_view t) = true.
Definition safe (d : trace -> bool) := forall t o, In (EvTimeout o) t -> 1 <= executions t -> d (sender_view t) = false.
Theorem impossibility_sender_view d : live d -> safe d -> False.
Proof.
  intros L S. set (o := Write 0 1).
  assert (A : d (sender_view (T1 o)) = true) by (apply (L _ o); simpl; auto).
  assert (B : d (sender_view (T2 o Done 0 1 2)) = false) by (apply (S _ o); simpl; auto 10).
  rewrite (indistinguishable o Done 0 1 2) in A. congruence.
Qed.

(* Lemma C.2 *)
Lemma fadd_non_idempotent m a d : d <> 0 ->
  fst (exec_op (fst (exec_op m (FADD a d))) (FADD a d)) a <> fst (exec_op m (FADD a d)) a.
Proof. intros D. simpl. unfold mem_write. rewrite Nat.eqb_refl. lia. Qed.

(* Lemma C.3: CAS(0 -> 1) succeeds, somebody resets, the retry succeeds again. *)
Lemma cas_double_success a : let o := CAS a 0 1 in
  let m1 := fst (exec_op mem0 o) in let m2 := mem_write m1 a 0 in
  snd (exec_op mem0 o) = Swap true 0 /\ snd (exec_op m2 o) = Swap true 0.
Proof. simpl. unfold mem_write, mem0. rewrite !Nat.eqb_refl. auto. Qed.

(* Lemma C.4 *)
Definition exec_send (s : list addr * mem) v : list addr * mem :=
  match s with ([], m) => ([], m) | (b :: q, m) => (q, mem_write m b v) end.
Lemma send_non_idempotent b1 b2 q m v : b1 <> b2 -> m b2 <> v ->
  let once := exec_send (b1 :: b2 :: q, m) v in let twice := exec_send once v in
  fst twice = q /\ fst once = b2 :: q /\ snd twice b2 <> snd once b2.
Proof.
  intros N M. simpl. unfold mem_write. rewrite Nat.eqb_refl.
  destruct (Nat.eqb_spec b2 b1); subst; try congruence. auto.
Qed.

(* Lemma C.5: a packed (data, flag) word is overwritten after reuse. *)
Lemma write_after_reuse a v w : v <> w ->
  let t := T2 (Write a v) Done a v w in
  replay mem0 t a = w /\ replay mem0 (t ++ [EvExecute (Write a v) Done]) a = v.
Proof. intros. simpl. unfold mem_write. rewrite Nat.eqb_refl. auto. Qed.
