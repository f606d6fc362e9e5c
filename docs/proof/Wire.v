(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Dir.v with numbers as the core has them: what a side says and hears, counts and epochs, is 32 bits wide, and compared
   as the core does (Wrap.v). Each step of that protocol is a step of Dir.v, however often the counts have wrapped, as
   long as a carrier has less than 2^31 requests in its ring (rings have 2^15), and no connection moves 2^31 times. *)
From Coq Require Import Arith List Bool ZArith Lia.
From Shift Require Import Wrap Dir Invariant Steps Promises.
Import ListNotations.

Definition w32 (n : nat) : Z := (Z.of_nat n mod range)%Z.
Record word32 := Word32 { count32 : Z; dead32 : Z; cut32 : Z }.
Definition pack (m : word) := Word32 (w32 (count m)) (w32 (dead m)) (w32 (cut m)).
Definition word32_eqb a b :=
  ((count32 a =? count32 b)%Z && (dead32 a =? dead32 b)%Z && (cut32 a =? cut32 b)%Z)%bool.

Section Wire.
Variable kind_of : nat -> kind.
Variable fenced : nat -> bool.
Notation rank := (rank kind_of). Notation step := (step kind_of fenced). Notation reachable := (reachable kind_of fenced).
Notation here s := (car s (act s)).

(* a->dead && sc_epoch_cmp(epoch, a->dead) < 0 *)
Definition marked (epoch : nat) (e : Z) := (negb (e =? 0) && (epoch_cmp (w32 epoch) e <? 0))%Z%bool.

(* sc_settle(): how many of the requests behind `from` the count tells of; none: MISCOUNT. *)
Definition counted s (from : nat) (peer : Z) : option nat :=
  let c := minus32 peer (w32 (rank from)) in
  if (minus32 (w32 (rank (hi (here s)))) (w32 (rank from)) <? c)%Z then None else Some (Z.to_nat c).
(* What S makes of what it heard: whether it recalls, and the word. *)
Definition understood s (h : word32) : option (bool * word) :=
  let recall := marked (act s) (dead32 h) in
  let from := if recall then Nat.max (seen s) (lo (here s)) else done s in
  match counted s from (count32 h) with
  | None => None
  | Some c => Some (recall, Word (rank from + c) (if recall then S (act s) else 0)
                                 (if marked (act s) (cut32 h) then S (act s) else 0))
  end.

(* A higher number, as sc_epoch_cmp() sees it. *)
Definition ahead (e : nat) (n : Z) : option nat :=
  let k := epoch_cmp n (w32 e) in if (0 <? k)%Z then Some (e + Z.to_nat k) else None.
Definition set_heard s h :=
  sends s (posted s) (done s) (seen s) (act s) (sep s) (moving s) (doubt s) h (quiet s).

Inductive label32 :=
| Leave32 (e : Z) | RLeave32 (e : Z) | Hear32 (e : Z) (m : word32) | Settle32 (proof : nat) | Other (l : label).
Definition other (l : label) :=
  match l with Leave _ | RLeave _ | Hear _ | Settle _ _ => false | _ => true end.

(* What S has of the peer's word is h. *)
Definition step32 (x : st * option word32) (l : label32) : option (st * option word32) :=
  let (s, h) := x in
  let with_ h r := match r with Some s' => Some (s', h) | None => None end in
  match l with
  | Other l => if other l then with_ h (step s l) else None
  | Leave32 n => match ahead (sep s) n with Some e => with_ None (step s (Leave e)) | None => None end
  | RLeave32 n => match ahead (rep s) n with Some e => with_ h (step s (RLeave e)) | None => None end
  | Hear32 n m =>
      if (n =? w32 (sep s))%Z then
        match find (fun x => (w32 (fst x) =? n)%Z && word32_eqb (pack (snd x)) m) (msgs s) with
        | Some x => with_ (Some m) (step s (Hear (snd x)))
        | None => None
        end
      else None
  | Settle32 proof =>
      match h with
      | None => None
      | Some m => match understood s m with
                  | Some (recall, u) => with_ None (step (set_heard s (Some u)) (Settle recall proof))
                  | None => None
                  end
      end
  end.

(* The window. *)
Definition fits s := (Z.of_nat (sep s) < half /\ Z.of_nat (rep s) < half /\
                      Z.of_nat (hi (here s) - lo (here s)) < half)%Z.

(* ---- numbers of dead carriers ------------------------------------------------------------------ *)

Definition modest s := rdead s <= rep s /\ rcut s <= rep s /\
  forall e m, In (e, m) (msgs s) -> e <= rep s /\ dead m <= e /\ cut m <= e.
Lemma modest_step s l s' : modest s -> step s l = Some s' -> modest s'.
Proof.
  unfold modest. intros (D & C & M) H.
  destruct l; unfold Dir.step in H; try (destruct (heard s) as [w|]; [|discriminate]); cbv zeta in H;
    try (apply guard_some in H as [G H]); try (injection H as H); subst s'; simpl; auto; boole;
    try (split; [lia|]; split; [lia|]; intros f m K; destruct (M f m K); lia).
  - destruct is_dead, is_cut; auto.
  - split; auto. split; auto. intros f m [E|K]; auto. injection E as <- <-. simpl. lia.
Qed.
Lemma modest_run s : reachable s -> modest s.
Proof.
  intros [ls H]. revert H. assert (Q : modest init) by (unfold modest; simpl; repeat split; try lia; contradiction).
  revert Q. generalize init. induction ls; simpl; intros i Q H. { inversion H; subst; auto. }
  destruct (Dir.step kind_of fenced i a) eqn:E; [|discriminate]. eauto using modest_step.
Qed.

(* ---- arithmetic --------------------------------------------------------------------------------- *)

Lemma w32_small n : (Z.of_nat n < range)%Z -> w32 n = Z.of_nat n.
Proof. intros H. unfold w32. apply Z.mod_small. lia. Qed.
Lemma w32_inj a b : (Z.of_nat a < half)%Z -> (Z.of_nat b < half)%Z -> w32 a = w32 b -> a = b.
Proof. intros A B. rewrite !w32_small by (unfold range, half in *; lia). lia. Qed.
Lemma epoch_cmp_w32 a b : (Z.of_nat a < half)%Z -> (Z.of_nat b < half)%Z ->
  epoch_cmp (w32 a) (w32 b) = (Z.of_nat a - Z.of_nat b)%Z.
Proof. intros A B. unfold w32. apply epoch_order_survives_the_wrap. lia. Qed.

Lemma marked_ok e d : (Z.of_nat e < half)%Z -> (Z.of_nat d < half)%Z -> marked e (w32 d) = (e <? d).
Proof.
  intros E D. unfold marked. rewrite epoch_cmp_w32 by auto. rewrite w32_small by (unfold range, half in *; lia).
  destruct (Nat.ltb_spec e d).
  - rewrite (proj2 (Z.eqb_neq _ _)) by lia. rewrite (proj2 (Z.ltb_lt _ _)) by lia. reflexivity.
  - rewrite (proj2 (Z.ltb_ge (Z.of_nat e - Z.of_nat d) 0)) by lia. apply andb_false_r.
Qed.

Lemma rank_window a b : a <= b -> rank b - rank a <= b - a.
Proof.
  induction 1; [lia|]. pose proof (rank_mono kind_of a m H).
  assert (E : rank (S m) = rank m + b2n (is_two kind_of m)) by reflexivity.
  destruct (is_two kind_of m); simpl b2n in E; lia.
Qed.

Lemma counted_ok s from c : rank from <= rank (hi (here s)) -> c <= rank (hi (here s)) ->
  (Z.of_nat (rank from) - Z.of_nat c < half)%Z -> (Z.of_nat (rank (hi (here s)) - rank from) < half)%Z ->
  counted s from (w32 c) = if rank from <=? c then Some (c - rank from) else None.
Proof.
  intros F C L W. unfold counted. cbv zeta.
  assert (R : minus32 (w32 (rank (hi (here s)))) (w32 (rank from)) = Z.of_nat (rank (hi (here s)) - rank from)).
  { unfold w32. replace (Z.of_nat (rank (hi (here s)))) with
      (Z.of_nat (rank from) + Z.of_nat (rank (hi (here s)) - rank from))%Z by lia.
    apply count_survives_the_wrap. unfold range, half in *. lia. }
  rewrite R. destruct (Nat.leb_spec (rank from) c).
  - assert (K : minus32 (w32 c) (w32 (rank from)) = Z.of_nat (c - rank from)).
    { unfold w32. replace (Z.of_nat c) with (Z.of_nat (rank from) + Z.of_nat (c - rank from))%Z by lia.
      apply count_survives_the_wrap. unfold range, half in *. lia. }
    rewrite K, (proj2 (Z.ltb_ge _ _)) by lia. rewrite Nat2Z.id. reflexivity.
  - assert (K : (Z.of_nat (rank (hi (here s)) - rank from) < minus32 (w32 c) (w32 (rank from)))%Z).
    { unfold w32. replace (Z.of_nat c) with (Z.of_nat (rank from) - Z.of_nat (rank from - c))%Z by lia.
      apply count_below_is_seen; lia. }
    rewrite (proj2 (Z.ltb_lt _ _)) by lia. reflexivity.
Qed.

(* ---- a word is understood ------------------------------------------------------------------------ *)

Lemma word_heard s m : reachable s -> fits s -> heard s = Some m -> act s < sep s ->
  (Z.of_nat (dead m) < half)%Z /\ (Z.of_nat (cut m) < half)%Z /\ (Z.of_nat (act s) < half)%Z /\
  count m <= rank (hi (here s)) /\
  forall r p, let a := v_from (settle kind_of fenced s m r p) in
    rank a <= rank (hi (here s)) /\ (Z.of_nat (rank a) - Z.of_nat (count m) < half)%Z /\
    (Z.of_nat (rank (hi (here s)) - rank a) < half)%Z.
Proof.
  intros R (F1 & F2 & F3) H L. pose proof (reachable_inv _ _ _ R) as I. destruct (modest_run s R) as (_ & _ & M).
  destruct (i_heard _ _ s I m H) as [_ K]. destruct (M _ _ K) as (K1 & K2 & K3).
  destruct (i_msgs _ _ s I _ _ K) as (_ & _ & X). destruct (X L) as (E & _).
  pose proof (never_more_than_published _ _ _ _ R H L) as N.
  rewrite (log_rank kind_of fenced s I) in E.
  pose proof (i_cp _ _ s I). pose proof (i_lonb _ _ s I). pose proof (i_done _ _ s I). pose proof (i_una _ _ s I).
  pose proof (i_ex _ _ s I). pose proof (i_seen _ _ s I). pose proof (i_lo _ _ s I).
  split; [lia|]. split; [lia|]. split; [lia|]. split; [auto|]. intros r p. cbv zeta.
  set (a := v_from (settle kind_of fenced s m r p)).
  assert (A : lo (here s) <= a <= hi (here s)) by (unfold a; simpl; destruct r; lia).
  pose proof (rank_mono kind_of a (hi (here s)) ltac:(lia)) as Q.
  pose proof (rank_mono kind_of (lo (here s)) (cp (here s)) ltac:(lia)) as Q1.
  pose proof (rank_mono kind_of (lo (here s)) a ltac:(lia)) as Q2.
  pose proof (rank_window a (hi (here s)) ltac:(lia)). pose proof (rank_window (lo (here s)) a ltac:(lia)).
  split; [auto|]. split; lia.
Qed.

Theorem a_word_is_understood s m : reachable s -> fits s -> heard s = Some m -> act s < sep s ->
  match understood s (pack m) with
  | None => forall p, step s (Settle (act s <? dead m) p) = None (* MISCOUNT *)
  | Some (recall, u) => recall = (act s <? dead m) /\ count u = count m /\
                        (act s <? dead u) = (act s <? dead m) /\ (act s <? cut u) = (act s <? cut m)
  end.
Proof.
  intros R F H L. destruct (word_heard s m R F H L) as (D & C & A & N & W). unfold understood. simpl.
  rewrite (marked_ok _ _ A D), (marked_ok _ _ A C). set (r := act s <? dead m).
  destruct (W r 0) as (W1 & W2 & W3). simpl in W1, W2, W3.
  rewrite counted_ok by auto. set (from := if r then Nat.max (seen s) (lo (here s)) else done s) in *.
  destruct (Nat.leb_spec (rank from) (count m)).
  - simpl. split; auto. split; [lia|]. split.
    + destruct r; simpl; [apply Nat.ltb_lt; lia|]. destruct (act s); reflexivity.
    + destruct (act s <? cut m); simpl; [apply Nat.ltb_lt; lia|]. destruct (act s); reflexivity.
  - intros p. unfold Dir.step. rewrite H. cbv zeta. unfold may_settle. simpl. fold r. fold from.
    rewrite (proj2 (Nat.leb_gt (rank from) (count m)) ltac:(lia)). simpl. rewrite !andb_false_r. reflexivity.
Qed.

(* Settling by a word that means the same is the same. *)
Lemma settle_same s m u r p : heard s = Some m -> count u = count m -> (act s <? dead u) = (act s <? dead m) ->
  (act s <? cut u) = (act s <? cut m) -> step (set_heard s (Some u)) (Settle r p) = step s (Settle r p).
Proof.
  intros H C D K. unfold Dir.step. simpl. rewrite H. cbv zeta. unfold may_settle, settle. simpl. rewrite C, D, K.
  reflexivity.
Qed.

(* ---- the refinement ------------------------------------------------------------------------------ *)

Definition agrees (x : st * option word32) := reachable (fst x) /\ snd x = option_map pack (heard (fst x)).

Lemma heard_kept s l s' : other l = true -> step s l = Some s' -> heard s' = heard s.
Proof.
  intros O H. destruct l; try discriminate; unfold Dir.step in H; cbv zeta in H;
    try (apply guard_some in H as [G H]); try (injection H as H); subst s'; reflexivity.
Qed.

Theorem wire_refines x l x' : agrees x -> fits (fst x) -> step32 x l = Some x' ->
  exists d, step (fst x) d = Some (fst x') /\ agrees x'.
Proof.
  destruct x as [s h], x' as [s' h']. intros [R A] F H. cbn [fst snd] in *. unfold step32 in H. cbv zeta in H.
  assert (G : forall d, step s d = Some s' -> h' = option_map pack (heard s') ->
              exists d, step s d = Some s' /\ agrees (s', h')).
  { intros d E Q. exists d. split; auto. split; cbn [fst snd]; eauto using reachable_step. }
  destruct l.
  - (* Leave *) destruct (ahead (sep s) e) as [n|]; [|discriminate].
    destruct (step s (Leave n)) as [t|] eqn:E; [|discriminate]. injection H as <- <-. apply (G _ E).
    unfold Dir.step in E. apply guard_some in E as [_ E]. subst t. reflexivity.
  - (* RLeave *) destruct (ahead (rep s) e) as [n|]; [|discriminate].
    destruct (step s (RLeave n)) as [t|] eqn:E; [|discriminate]. injection H as <- <-. apply (G _ E).
    unfold Dir.step in E. apply guard_some in E as [_ E]. subst t. simpl. auto.
  - (* Hear *) destruct (e =? w32 (sep s))%Z; [|discriminate].
    destruct (find _ _) as [[f w]|] eqn:Q; [|discriminate]. apply find_some in Q as [_ Q]. cbn [fst snd] in *.
    destruct (step s (Hear w)) as [t|] eqn:E; [|discriminate]. injection H as <- <-. apply (G _ E).
    unfold Dir.step in E. apply guard_some in E as [_ E]. subst t. simpl. f_equal.
    apply andb_prop in Q as [_ Q]. unfold word32_eqb in Q. apply andb_prop in Q as [Q Q3].
    apply andb_prop in Q as [Q1 Q2]. apply Z.eqb_eq in Q1, Q2, Q3. unfold pack in *. simpl in *.
    destruct m; simpl in *. congruence.
  - (* Settle *) destruct h as [m|]; [|discriminate].
    destruct (heard s) as [w|] eqn:Hw; [|discriminate]. injection A as ->.
    destruct (understood s (pack w)) as [[r u]|] eqn:U; [|discriminate].
    destruct (step (set_heard s (Some u)) (Settle r proof)) as [t|] eqn:E; [|discriminate]. injection H as <- <-.
    assert (L : act s < sep s).
    { unfold Dir.step in E. simpl in E. apply guard_some in E as [E _]. boole. auto. }
    pose proof (a_word_is_understood s w R F Hw L) as K. rewrite U in K. destruct K as (_ & K1 & K2 & K3).
    rewrite (settle_same s w u r proof Hw K1 K2 K3) in E. apply (G _ E).
    unfold Dir.step in E. rewrite Hw in E. cbv zeta in E. apply guard_some in E as [_ E]. subst t. reflexivity.
  - (* all else *) destruct (other l) eqn:O; [|discriminate].
    destruct (step s l) as [t|] eqn:E; [|discriminate]. injection H as <- <-. apply (G _ E).
    rewrite (heard_kept _ _ _ O E). auto.
Qed.

(* A run in which no carrier and no connection leaves the window is a run of Dir.v: all promises hold. *)
Fixpoint run32 ls x := match ls with
  | [] => Some x
  | l :: ls => match step32 x l with Some x' => run32 ls x' | None => None end
  end.
Theorem run32_is_a_run ls : forall x x', agrees x ->
  (forall k y, run32 (firstn k ls) x = Some y -> fits (fst y)) -> run32 ls x = Some x' -> reachable (fst x').
Proof.
  induction ls as [|l ls IH]; simpl; intros x x' A F H. { inversion H; subst. apply A. }
  destruct (step32 x l) as [y|] eqn:E; [|discriminate].
  destruct (wire_refines x l y A (F 0 x eq_refl) E) as (_ & _ & B). apply (IH y x' B); auto.
  intros k z K. apply (F (S k) z). simpl. rewrite E. auto.
Qed.

(* Nothing that may be heard is lost by the width: a number that is ahead in Dir.v is ahead on the wire. *)
Theorem ahead_on_the_wire a b : a < b -> (Z.of_nat a < half)%Z -> (Z.of_nat b < half)%Z -> ahead a (w32 b) = Some b.
Proof.
  intros L A B. unfold ahead. rewrite epoch_cmp_w32 by auto. rewrite (proj2 (Z.ltb_lt _ _)) by lia. f_equal. lia.
Qed.
End Wire.
