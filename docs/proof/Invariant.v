(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* What holds in every state of Dir.v that can be reached. The promises (Promises.v) follow. *)
From Coq Require Import Arith List Bool Lia.
From Shift Require Import Dir.
Import ListNotations.

Ltac boole := repeat match goal with
  | H : _ && _ = true |- _ => apply andb_true_iff in H; destruct H
  | H : _ || _ = true |- _ => apply orb_true_iff in H
  | H : _ || _ = false |- _ => apply orb_false_iff in H; destruct H
  | H : negb _ = true |- _ => apply negb_true_iff in H
  | H : negb _ = false |- _ => apply negb_false_iff in H
  | H : (_ <? _) = true |- _ => apply Nat.ltb_lt in H
  | H : (_ <? _) = false |- _ => apply Nat.ltb_ge in H
  | H : (_ <=? _) = true |- _ => apply Nat.leb_le in H
  | H : (_ <=? _) = false |- _ => apply Nat.leb_gt in H
  | H : (_ =? _) = true |- _ => apply Nat.eqb_eq in H
  | H : (_ =? _) = false |- _ => apply Nat.eqb_neq in H
  end.

Lemma guard_some {A} b (x y : A) : guard b x = Some y -> b = true /\ x = y.
Proof. destruct b; simpl; intros H; inversion H; auto. Qed.

Lemma upd_same {A} (f : nat -> A) e v : upd f e v e = v.
Proof. unfold upd. now rewrite Nat.eqb_refl. Qed.
Lemma upd_other {A} (f : nat -> A) e v x : x <> e -> upd f e v x = f x.
Proof. unfold upd. intros. destruct (Nat.eqb_spec x e); congruence. Qed.

Lemma in_upto a b n : In n (upto a b) <-> a <= n < b.
Proof. unfold upto. rewrite in_seq. lia. Qed.
Lemma forall_upto f a b : forallb f (upto a b) = true <-> forall n, a <= n < b -> f n = true.
Proof.
  rewrite forallb_forall. split; intros H n Hn; apply H; apply in_upto; auto.
Qed.
Lemma mem_in n l : mem n l = true <-> In n l.
Proof.
  unfold mem. rewrite existsb_exists. split.
  - intros (x & I & E). boole. subst. auto.
  - intros I. exists n. rewrite Nat.eqb_refl. auto.
Qed.

Section Invariant.
Variable kind_of : nat -> kind.
Variable fenced : nat -> bool.
Notation is_two := (is_two kind_of). Notation is_wr := (is_wr kind_of). Notation is_rd := (is_rd kind_of).
Notation is_at := (is_at kind_of). Notation is_lc := (is_lc kind_of).
Notation rank := (rank kind_of). Notation twos := (twos kind_of). Notation nop := (nop kind_of).
Notation changes := (changes kind_of). Notation step := (step kind_of fenced).
Notation settle := (settle kind_of fenced).

Lemma kinds n : match kind_of n with
  | Two => is_two n = true /\ is_wr n = false /\ is_rd n = false /\ is_at n = false /\ is_lc n = false
  | Wr => is_two n = false /\ is_wr n = true /\ is_rd n = false /\ is_at n = false /\ is_lc n = false
  | Rd => is_two n = false /\ is_wr n = false /\ is_rd n = true /\ is_at n = false /\ is_lc n = false
  | At => is_two n = false /\ is_wr n = false /\ is_rd n = false /\ is_at n = true /\ is_lc n = false
  | Lc => is_two n = false /\ is_wr n = false /\ is_rd n = false /\ is_at n = false /\ is_lc n = true
  end.
Proof.
  unfold Dir.is_two, Dir.is_wr, Dir.is_rd, Dir.is_at, Dir.is_lc. destruct (kind_of n); auto.
Qed.
Ltac kind n := pose proof (kinds n); destruct (kind_of n);
  repeat match goal with H : _ /\ _ |- _ => destruct H end.

(* ---- arithmetic ------------------------------------------------------------------------------ *)

Lemma rank_mono a b : a <= b -> rank a <= rank b.
Proof. induction 1; simpl; lia. Qed.

Lemma length_twos n : length (twos n) = rank n.
Proof. induction n; simpl; auto. rewrite app_length, IHn. destruct (is_two n); simpl; lia. Qed.

Lemma twos_flat a b : a <= b -> rank a = rank b -> twos a = twos b.
Proof.
  induction 1; intros E; auto. simpl in *.
  pose proof (rank_mono a m H). destruct (is_two m); simpl in *.
  - lia.
  - rewrite app_nil_r. apply IHle. lia.
Qed.

Lemma in_twos n m : In m (twos n) <-> m < n /\ is_two m = true.
Proof.
  induction n; simpl.
  - split; [tauto | lia].
  - rewrite in_app_iff, IHn. destruct (is_two n) eqn:E; simpl; split.
    + intros [[]|[]]; subst; auto; tauto.
    + intros [? ?]. destruct (Nat.eq_dec m n); subst; auto. left; split; auto; lia.
    + intros [[]|[]]. auto.
    + intros [? ?]. destruct (Nat.eq_dec m n); subst. congruence. left; split; auto; lia.
Qed.

Lemma region_ge c f : forall n, n <= region kind_of c n f.
Proof. induction f; simpl; intros; destruct (_ <=? _); auto. specialize (IHf (S n)). lia. Qed.

(* The least index that is not before n and has c two-sided requests before it. *)
Lemma region_rank c f : forall n, rank n <= c -> c <= rank (n + f) -> rank (region kind_of c n f) = c.
Proof.
  induction f; simpl; intros n H1 H2; destruct (Nat.leb_spec c (rank n)); try lia.
  - rewrite Nat.add_0_r in H2. lia.
  - apply IHf.
    + simpl. destruct (is_two n); simpl; lia.
    + replace (S n + f) with (n + S f) by lia. auto.
Qed.

Lemma region_least c f x : forall n, n <= x -> c <= rank x -> region kind_of c n f <= x.
Proof.
  induction f; simpl; intros n H1 H2; destruct (Nat.leb_spec c (rank n)); auto.
  apply IHf; auto. destruct (Nat.eq_dec n x); subst; lia.
Qed.

(* What a READ or an atomic proves. *)
Lemma answered_spec c k lim f : forall r n, r <= n -> rank r = rank n ->
  let b := answered kind_of c k lim r n f in
  r <= b /\ rank b = rank r /\
  (b = r \/ exists m, b = S m /\ n <= m < lim /\ nop c m = false /\
                      (is_rd m = true \/ is_at m = true /\ k = false)).
Proof.
  induction f; simpl; intros r n L E.
  - auto.
  - destruct (is_two n) eqn:T; [auto|].
    destruct (_ && _) eqn:K; boole.
    + assert (RS : rank (S n) = rank n) by (simpl; rewrite T; simpl; lia).
      destruct (IHf (S n) (S n)) as (A & B & C); auto.
      split; [lia|]. split; [congruence|]. right.
      destruct C as [C|(m & C & D & F & G)].
      * exists n. repeat split; auto; try lia. destruct H0; boole; auto.
      * exists m. repeat split; auto; lia.
    + destruct (IHf r (S n)) as (A & B & C); auto.
      * simpl. rewrite T. simpl. lia.
      * split; auto. split; auto. destruct C as [C|(m & C & D & F & G)]; auto.
        right. exists m. repeat split; auto; lia.
Qed.

Lemma leading_spec rd b f : forall n, n <= b ->
  let l := leading rd b n f in n <= l <= b /\ forall m, n <= m < l -> mem m rd = false.
Proof.
  induction f; simpl; intros n L.
  - split; [lia|]. intros; lia.
  - destruct (_ && _) eqn:K; boole.
    + destruct (IHf (S n)) as (A & B); [lia|]. split; [lia|].
      intros m M. destruct (Nat.eq_dec m n); subst; auto. apply B. lia.
    + split; [lia|]. intros; lia.
Qed.

(* What was seen complete last proves all before it, or everything down to the first that was laid is NOPs. *)
Lemma seen_spec c f : forall n, f <= n -> seen_unplaced kind_of c n f = false ->
  exists m, n - f <= m <= n /\ (forall k, m <= k < n -> nop c k = true) /\
    (m = n - f \/ exists q, m = S q /\ nop c q = false /\ is_wr q = false /\ is_at q = false).
Proof.
  induction f; intros n L H.
  - exists n. split; [lia|]. split; [intros; lia|]. left. lia.
  - destruct n; [lia|]. simpl in H. destruct (nop c n) eqn:N.
    + destruct (IHf n) as (m & A & B & C); auto; [lia|].
      exists m. split; [lia|]. split.
      * intros k K. destruct (Nat.eq_dec k n); subst; auto. apply B. lia.
      * destruct C as [C|C]; auto.
    + boole. exists (S n). split; [lia|]. split; [intros; lia|]. right. exists n. auto.
Qed.

Lemma nop_lc c n : is_lc n = true -> nop c n = true.
Proof. unfold Dir.nop. intros ->. auto. Qed.
Lemma nop_below c n : nop c n = true -> is_lc n = false -> n < nb c.
Proof. unfold Dir.nop. intros H L. rewrite L in H. simpl in H. boole. auto. Qed.

(* ---- the invariant ---------------------------------------------------------------------------- *)

Notation here s := (car s (act s)).

Record Inv (s : st) : Prop := {
  i_hi : hi (here s) <= posted s;
  i_ex : ex (here s) <= hi (here s);
  i_una : una (here s) <= ex (here s);
  i_done : done s <= una (here s);
  i_seen : seen s <= done s;
  i_lo : lo (here s) <= done s;
  i_lonb : lo (here s) <= nb (here s);
  i_nb : nb (here s) <= hi (here s);
  i_cp : nb (here s) <= cp (here s) <= pl (here s);
  i_pl : pl (here s) <= Nat.max (nb (here s)) (ex (here s));
  i_fresh : forall e, act s < e -> hi (car s e) = 0 /\ ex (car s e) = 0 /\ pl (car s e) = 0 /\ cp (car s e) = 0;
  i_again : forall n, In n (again (here s)) -> is_rd n = true;
  i_seal : act s <= seal s <= rep s;
  i_sealed : forall e, e < seal s -> settled s e = true /\ (is_well s e = false -> e < rdead s);
  i_lost : act s < seal s -> pl (here s) < ex (here s) -> act s < rcut s;
  i_flush : act s < rerr s -> is_well s (act s) = true -> ex (here s) <= cp (here s);
  i_log : map fst (log s) = twos (cp (here s));
  i_recv : forall i n r, nth_error (log s) i = Some (n, r) -> r = i;
  i_head : head (here s) = length (log s);
  i_wrs : doubt s = false -> forall n, n < pl (here s) -> is_wr n = true -> In n (wrs s);
  i_p3 : forall n r m, In (n, r) (log s) -> m < n -> is_wr m = true -> In m (wrs s);
  i_doubt : doubt s = true -> forall n, nb (here s) <= n < hi (here s) -> is_wr n = true \/ is_lc n = true;
  i_kinds : forall n, In n (wrs s) -> is_wr n = true;
  i_ats : forall n, In n (ats s) <-> n < front s /\ is_at n = true;
  i_once : NoDup (ats s);
  i_exd : forall n, In n (exd s) -> n < hi (here s);
  i_age : forall n m k, ex (here s) <= n -> is_rd n = true -> nop (here s) n = false ->
          n < m -> fenced m = true -> m <= k -> changes k = true -> ~ In k (exd s);
  i_vouch : forall n m, lo (here s) <= n -> is_rd n = true -> nop (here s) n = false ->
            n < m -> fenced m = true -> nb (here s) <= m;
  i_got : forall n, n < una (here s) -> is_rd n = true -> In n (got s);
  i_gotn : forall n, is_rd n = true -> nop (here s) n = true -> In n (got s);
  i_gotf : forall m n, m < front s -> fenced m = true -> n < m -> is_rd n = true -> In n (got s);
  i_rd : forall n, nb (here s) <= n < ex (here s) -> is_rd n = true \/ is_at n = true -> n <= pl (here s);
  i_ep : act s <= sep s;
  i_still : moving s = false -> act s = sep s;
  i_gone : gone s <= sep s /\ gone s <= rep s;
  i_rerr : rerr s <= rep s;
  i_quiet : forall e, In e (quiet s) -> e <= sep s;
  i_msgs : forall e m, In (e, m) (msgs s) ->
           e <= seal s /\ (forall x, x < e -> is_well s x = false -> x < dead m) /\
           (act s < e -> length (log s) = count m /\ head (car s e) = count m /\
                         (pl (here s) < ex (here s) -> act s < cut m));
  i_fin : fin s = false -> (rep s = 0 \/ act s < rep s) /\ forall e m, In (e, m) (msgs s) -> e < rep s;
  i_heard : forall m, heard s = Some m -> moving s = true /\ In (sep s, m) (msgs s);
}.

Lemma inv_init : Inv init.
Proof.
  constructor; unfold front; simpl; intros; try tauto; try lia; try congruence; try constructor;
    try (destruct i; discriminate); try tauto; try lia.
  all: repeat split; try tauto; try lia.
  apply nop_below in H0; simpl in *; [lia|]. kind n; congruence.
Qed.

Lemma settled_dead s e : settled s e = true -> dead_at s e = true.
Proof.
  unfold settled, dead_at.
  destruct (is_well s e), (is_sick s e), (is_lost s e), (e <? rerr s), (e <? gone s);
    simpl; auto; intros; try discriminate.
Qed.

(* Nothing runs but on the carrier in use. *)
Lemma live_is_act s e : Inv s -> dead_at s e = false -> ex (car s e) < hi (car s e) -> e = act s.
Proof.
  intros I D L. destruct (lt_eq_lt_dec e (act s)) as [[?|?]|?]; auto.
  - destruct (i_sealed s I e) as [X _]; [destruct (i_seal s I); lia|].
    rewrite (settled_dead _ _ X) in D. discriminate.
  - destruct (i_fresh s I e l). lia.
Qed.
Lemma place_is_act s e : Inv s -> seal s <= e -> pl (car s e) < ex (car s e) -> e = act s.
Proof.
  intros I D L. destruct (lt_eq_lt_dec e (act s)) as [[?|?]|?]; auto.
  - destruct (i_seal s I). lia.
  - destruct (i_fresh s I e l). lia.
Qed.
Lemma comp_is_act s e : Inv s -> seal s <= e -> cp (car s e) < pl (car s e) -> e = act s.
Proof.
  intros I D L. destruct (lt_eq_lt_dec e (act s)) as [[?|?]|?]; auto.
  - destruct (i_seal s I). lia.
  - destruct (i_fresh s I e l). lia.
Qed.
Lemma live_unsealed s : Inv s -> dead_at s (act s) = false -> seal s = act s.
Proof.
  intros I D. destruct (i_seal s I) as [A _]. destruct (Nat.eq_dec (seal s) (act s)); auto.
  destruct (i_sealed s I (act s)) as [X _]; [lia|].
  rewrite (settled_dead _ _ X) in D. discriminate.
Qed.

Lemma log_rank s : Inv s -> length (log s) = rank (cp (here s)).
Proof. intros I. rewrite <- length_twos, <- (i_log s I), map_length. auto. Qed.
End Invariant.
