(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Paper, Theorem 3.4 / C.6, in the form that can be proven: who decides, with reads and writes of
   shared registers alone and without waiting, whether the ghost or the backup goes first? Nobody.
   (Herlihy 1991; here constructively, for two processes.) *)
From Coq Require Import Arith Bool Lia.

Inductive proc :=
| Dec (b : bool)
| Rd (r : nat) (k : nat -> proc)
| Wt (r v : nat) (k : proc).

Definition mem := nat -> nat.
Definition upd (m : mem) r v : mem := fun x => if x =? r then v else m x.

(* A tree: every run of a process ends, whatever the others do (wait-freedom). *)
Inductive step : proc * proc * mem -> proc * proc * mem -> Prop :=
| PR r k q m : step (Rd r k, q, m) (k (m r), q, m)
| PW r v k q m : step (Wt r v k, q, m) (k, q, upd m r v)
| QR p r k m : step (p, Rd r k, m) (p, k (m r), m)
| QW p r v k m : step (p, Wt r v k, m) (p, k, upd m r v).

Inductive steps : proc * proc * mem -> proc * proc * mem -> Prop :=
| S0 c : steps c c
| S1 c d e : step c d -> steps d e -> steps c e.

Definition agree c := forall a b m, steps c (Dec a, Dec b, m) -> a = b.

Fixpoint solo p (m : mem) : bool :=
  match p with Dec b => b | Rd r k => solo (k (m r)) m | Wt r v k => solo k (upd m r v) end.

Lemma upd_ext m m' r v : (forall x, m x = m' x) -> forall x, upd m r v x = upd m' r v x.
Proof. intros E x. unfold upd. destruct (x =? r); auto. Qed.

Lemma solo_ext p : forall m m', (forall x, m x = m' x) -> solo p m = solo p m'.
Proof.
  induction p; simpl; intros m m' E; auto.
  - rewrite (E r). auto.
  - apply IHp. apply upd_ext. auto.
Qed.

Lemma steps_trans c d e : steps c d -> steps d e -> steps c e.
Proof. induction 1; intros; auto. econstructor; eauto. Qed.

Lemma solo_q q : forall p m, exists m', steps (p, q, m) (p, Dec (solo q m), m').
Proof.
  induction q; simpl; intros p m.
  - exists m. constructor.
  - destruct (H (m r) p m) as [m' R]. exists m'. eapply S1; [constructor | auto].
  - destruct (IHq p (upd m r v)) as [m' R]. exists m'. eapply S1; [constructor | auto].
Qed.

Lemma solo_p p : forall q m, exists m', steps (p, q, m) (Dec (solo p m), q, m').
Proof.
  induction p; simpl; intros q m.
  - exists m. constructor.
  - destruct (H (m r) q m) as [m' R]. exists m'. eapply S1; [constructor | auto].
  - destruct (IHp q (upd m r v)) as [m' R]. exists m'. eapply S1; [constructor | auto].
Qed.

Lemma agree_step c d : agree c -> step c d -> agree d.
Proof. intros A T a b m R. apply (A a b m). econstructor; eauto. Qed.

(* Where all runs agree, both would decide the same if they were alone from here on. *)
Theorem solo_equal p : forall q m, agree (p, q, m) -> solo p m = solo q m.
Proof.
  induction p as [a|r k IHk|r v p IHp]; intros q m A.
  - destruct (solo_q q (Dec a) m) as [m' R]. simpl. apply (A _ _ _ R).
  - simpl. rewrite (IHk (m r) q m); auto. apply (agree_step _ _ A). constructor.
  - revert m A. induction q as [b|s l IHl|s w q IHq]; intros m A.
    + destruct (solo_p (Wt r v p) (Dec b) m) as [m' R]. apply (A _ _ _ R).
    + change (solo (Rd s l) m) with (solo (l (m s)) m). apply IHl.
      apply (agree_step _ _ A). constructor.
    + assert (AP : agree (p, Wt s w q, upd m r v)) by (apply (agree_step _ _ A); constructor).
      assert (AQ : agree (Wt r v p, q, upd m s w)) by (apply (agree_step _ _ A); constructor).
      assert (EP := IHp _ _ AP). assert (EQ := IHq _ AQ). simpl in *.
      destruct (Nat.eq_dec r s) as [->|N].
      * (* the second write wins *)
        rewrite EP. apply solo_ext. intros x. unfold upd. destruct (x =? s); auto.
      * (* they commute *)
        assert (APQ : agree (p, q, upd (upd m r v) s w)) by (apply (agree_step _ _ AP);
        constructor).
        assert (EPQ := IHp _ _ APQ). rewrite EP, <- EQ, <- EPQ.
        apply solo_ext. intros x. unfold upd.
        destruct (Nat.eqb_spec x r), (Nat.eqb_spec x s); congruence.
Qed.

(* An arbiter between the ghost (the request in the network) and the backup: true says that the ghost
   counts. Whoever is alone has to win. *)
Theorem no_arbiter_from_registers ghost backup m :
  solo ghost m = true -> solo backup m = false -> ~ agree (ghost, backup, m).
Proof. intros G B A. rewrite (solo_equal _ _ _ A) in G. congruence. Qed.
