(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* One direction of one protected connection: sender S, receiver R, any number of carriers (epochs),
   requests, faults, late packets, and messages that are lost, doubled or reordered.
   An executable transition function; the invariant is proven for every list of labels.
   Rules: docs/design.md, shiftlib/core_move.c, shiftlib/settle.c, docs/model/shift.pml.
   Where the core is stricter the model is looser (more behaviours), so that safety carries over. *)
From Coq Require Import Arith List Bool Lia.
Import ListNotations.

Inductive kind := Two | Wr | Rd | At.

Ltac boole := repeat match goal with
  | H : _ && _ = true |- _ => apply andb_true_iff in H; destruct H
  | H : _ || _ = true |- _ => apply orb_true_iff in H
  | H : negb _ = true |- _ => apply negb_true_iff in H
  | H : (_ <? _) = true |- _ => apply Nat.ltb_lt in H
  | H : (_ <? _) = false |- _ => apply Nat.ltb_ge in H
  | H : (_ <=? _) = true |- _ => apply Nat.leb_le in H
  | H : (_ =? _) = true |- _ => apply Nat.eqb_eq in H
  | H : (_ =? _) = false |- _ => apply Nat.eqb_neq in H
  end.

Section Dir.
Variable kind_of : nat -> kind.

Definition is_two n := match kind_of n with Two => true | _ => false end.
Definition is_rd n := match kind_of n with Rd => true | _ => false end.
Definition is_at n := match kind_of n with At => true | _ => false end.

Definition b2n (b : bool) := if b then 1 else 0.
(* How many of the requests 0..n-1 are two-sided; and which. *)
Fixpoint rank n := match n with 0 => 0 | S m => rank m + b2n (is_two m) end.
Fixpoint twos n : list nat :=
  match n with 0 => [] | S m => twos m ++ (if is_two m then [m] else []) end.

Record carrier := Car {
  lo : nat;  (* first request that was laid into it *)
  nb : nat;  (* requests below are delivered: NOPs, but for READs *)
  hi : nat;  (* rung up to here *)
  ex : nat;  (* the responder expects this one *)
  ak : nat;  (* may be acknowledged up to here *)
  head : nat; (* next receive in its ring *)
  torn : bool (* the NIC died between the bytes (and the acknowledgement) and the completion *)
}.
Definition empty := Car 0 0 0 0 0 0 false.

Record st := St {
  posted : nat; done : nat; act : nat; sep : nat; moving : bool; heard : option nat;
  quiet : list nat;          (* epochs for which S has said: my older QPs are in ERR *)
  rep : nat; rerr : nat; gone : nat; rsick : nat -> bool; fin : bool;
  log : list (nat * nat);    (* completed receives: request, receive *)
  wrs : list nat; ats : list nat; (* executed WRITEs, atomics *)
  msgs : list (nat * nat);   (* STATE{epoch, final count} that R has ever sent *)
  car : nat -> carrier
}.

Definition init : st :=
  St 0 0 0 0 false None [] 0 0 0 (fun _ => false) false [] [] [] [] (fun _ => empty).

Definition upd {A} (f : nat -> A) e v := fun x => if x =? e then v else f x.

(* R executes nothing on carrier e any more. *)
Definition dead s e := (e <? gone s) || ((e <? rerr s) && negb (rsick s e)).
Definition all_dead s e := forallb (dead s) (seq 0 e).

(* settle.c, delivered_region(): behind the c-th two-sided request, but not before n. *)
Fixpoint region c n fuel :=
  if c <=? rank n then n else match fuel with 0 => n | S f => region c (S n) f end.
Definition no_at a b := forallb (fun n => negb (is_at n)) (seq a (b - a)).

Inductive label :=
| Post | Ring | Ack | Leave (e : nat) | Quiesce | Hear (c : nat) | Settle
| Exec (e : nat) | Skip | Tear (e : nat)
| RLeave (e : nat) | RQuiesce | RHang (e : nat) | RLifetime | Final.

Definition set_car s e c :=
  St (posted s) (done s) (act s) (sep s) (moving s) (heard s) (quiet s) (rep s) (rerr s) (gone s)
     (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s) (upd (car s) e c).

Definition guard {A} (b : bool) (x : A) := if b then Some x else None.

Definition nop c n := (n <? nb c) && negb (is_rd n).

Definition step (s : st) (l : label) : option st :=
  match l with
  (* the application posts; the doorbell may be withheld (a fence, a move) *)
  | Post => Some (St (S (posted s)) (done s) (act s) (sep s) (moving s) (heard s) (quiet s) (rep s)
                     (rerr s) (gone s) (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s) (car s))
  | Ring =>
      let c := car s (act s) in
      guard (negb (moving s))
        (set_car s (act s) (Car (lo c) (nb c) (posted s) (ex c) (ak c) (head c) (torn c)))
  (* the oldest request completes: acknowledged on the carrier in use *)
  | Ack =>
      guard (done s <? ak (car s (act s)))
        (St (posted s) (S (done s)) (act s) (sep s) (moving s) (heard s) (quiet s) (rep s)
            (rerr s) (gone s) (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s) (car s))
  (* S leaves for a higher epoch, from whatever it is at *)
  | Leave e =>
      guard (sep s <? e)
        (St (posted s) (done s) (act s) e true None (quiet s) (rep s)
            (rerr s) (gone s) (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s) (car s))
  | Quiesce =>
      Some (St (posted s) (done s) (act s) (sep s) (moving s) (heard s) (sep s :: quiet s) (rep s)
            (rerr s) (gone s) (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s) (car s))
  (* any message about this epoch that was ever sent *)
  | Hear c =>
      guard (moving s && (act s <? sep s) &&
             existsb (fun m => (fst m =? sep s) && (snd m =? c)) (msgs s))
        (St (posted s) (done s) (act s) (sep s) (moving s) (Some c) (quiet s) (rep s)
            (rerr s) (gone s) (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s) (car s))
  | Settle =>
      match heard s with
      | None => None
      | Some c =>
          let o := car s (act s) in
          let b := region c (done s) (hi o - done s) in
          guard (moving s && (act s <? sep s) && (rank (done s) <=? c) && (c <=? rank (hi o)) &&
                 no_at (done s) (hi o))
            (St (posted s) (done s) (sep s) (sep s) false None (quiet s) (rep s)
                (rerr s) (gone s) (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s)
                (upd (car s) (sep s)
                     (Car (done s) b (posted s) (done s) (done s) (head (car s (sep s))) false)))
      end
  (* a packet arrives at R, at once or late, on whatever carrier is not dead *)
  | Exec e =>
      let c := car s e in let n := ex c in
      guard (negb (dead s e) && (n <? hi c) && negb (nop c n) && negb (torn c))
        (let c' := Car (lo c) (nb c) (hi c) (S n) (S n)
                       (if is_two n then S (head c) else head c) false in
         St (posted s) (done s) (act s) (sep s) (moving s) (heard s) (quiet s) (rep s)
            (rerr s) (gone s) (rsick s) (fin s)
            (if is_two n then log s ++ [(n, head c)] else log s)
            (match kind_of n with Wr => n :: wrs s | _ => wrs s end)
            (if is_at n then n :: ats s else ats s) (msgs s) (upd (car s) e c'))
  (* a NOP completes at S, whatever R is *)
  | Skip =>
      let c := car s (act s) in let n := ex c in
      guard ((n <? hi c) && nop c n && negb (torn c))
        (set_car s (act s) (Car (lo c) (nb c) (hi c) (S n) (S n) (head c) false))
  | Tear e =>
      let c := car s e in
      guard (negb (dead s e) && (ex c <? hi c) && is_two (ex c) && negb (nop c (ex c)) &&
             negb (torn c))
        (set_car s e (Car (lo c) (nb c) (hi c) (ex c) (S (ex c)) (head c) true))
  | RLeave e =>
      guard (rep s <? e)
        (St (posted s) (done s) (act s) (sep s) (moving s) (heard s) (quiet s) e
            (rerr s) (gone s) (rsick s) false (log s) (wrs s) (ats s) (msgs s) (car s))
  (* SC_ACT_QUIESCE: older QPs to ERR, drained; not on a NIC that hangs *)
  | RQuiesce =>
      Some (St (posted s) (done s) (act s) (sep s) (moving s) (heard s) (quiet s) (rep s)
            (Nat.max (rerr s) (rep s)) (gone s) (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s)
            (car s))
  | RHang e =>
      guard (rerr s <=? e)
        (St (posted s) (done s) (act s) (sep s) (moving s) (heard s) (quiet s) (rep s)
            (rerr s) (gone s) (upd (rsick s) e true) (fin s) (log s) (wrs s) (ats s) (msgs s)
            (car s))
  (* the longest packet lifetime has passed since S said quiesced for this epoch *)
  | RLifetime =>
      guard (existsb (Nat.eqb (rep s)) (quiet s))
        (St (posted s) (done s) (act s) (sep s) (moving s) (heard s) (quiet s) (rep s)
            (rerr s) (Nat.max (gone s) (rep s)) (rsick s) (fin s) (log s) (wrs s) (ats s) (msgs s)
            (car s))
  (* the count is final; receives are laid into the new carrier; STATE is sent from now on *)
  | Final =>
      let c := car s (rep s) in
      guard (negb (fin s) && negb (rep s =? 0) && all_dead s (rep s))
        (St (posted s) (done s) (act s) (sep s) (moving s) (heard s) (quiet s) (rep s)
            (rerr s) (gone s) (rsick s) true (log s) (wrs s) (ats s)
            ((rep s, length (log s)) :: msgs s)
            (upd (car s) (rep s)
                 (Car (lo c) (nb c) (hi c) (ex c) (ak c) (length (log s)) (torn c))))
  end.

Fixpoint run (ls : list label) (s : st) : option st :=
  match ls with
  | [] => Some s
  | l :: ls => match step s l with Some s' => run ls s' | None => None end
  end.

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

Lemma region_ge c f : forall n, n <= region c n f.
Proof. induction f; simpl; intros; destruct (_ <=? _); auto. specialize (IHf (S n)). lia. Qed.

Lemma region_le c f : forall n, region c n f <= n + f.
Proof. induction f; simpl; intros; destruct (_ <=? _); try lia. specialize (IHf (S n)). lia. Qed.

(* The least index that is not before n and has c two-sided requests before it. *)
Lemma region_rank c f : forall n, rank n <= c -> c <= rank (n + f) -> rank (region c n f) = c.
Proof.
  induction f; simpl; intros n H1 H2; destruct (Nat.leb_spec c (rank n)); try lia.
  - rewrite Nat.add_0_r in H2. lia.
  - apply IHf.
    + simpl. destruct (is_two n); simpl; lia.
    + replace (S n + f) with (n + S f) by lia. auto.
Qed.

Lemma region_least c f x : forall n, n <= x -> c <= rank x -> region c n f <= x.
Proof.
  induction f; simpl; intros n H1 H2; destruct (Nat.leb_spec c (rank n)); auto.
  apply IHf; auto. destruct (Nat.eq_dec n x); subst; lia.
Qed.

Lemma all_dead_spec s e : all_dead s e = true <-> forall x, x < e -> dead s x = true.
Proof.
  unfold all_dead. rewrite forallb_forall. split; intros H x Hx; apply H.
  - apply in_seq. lia.
  - apply in_seq in Hx. lia.
Qed.

Lemma no_at_spec a b : no_at a b = true <-> forall n, a <= n < b -> is_at n = false.
Proof.
  unfold no_at. rewrite forallb_forall. split; intros H n Hn.
  - specialize (H n). rewrite negb_true_iff in H. apply H, in_seq. lia.
  - apply in_seq in Hn. apply negb_true_iff, H. lia.
Qed.

(* ---- the invariant ---------------------------------------------------------------------------- *)

(* Up to here everything has been executed, over all carriers. *)
Definition front s := Nat.max (nb (car s (act s))) (ex (car s (act s))).

Record Inv (s : st) : Prop := {
  i_hi : hi (car s (act s)) <= posted s;
  i_ex : ex (car s (act s)) <= hi (car s (act s));
  i_nb : nb (car s (act s)) <= hi (car s (act s));
  i_ak : ak (car s (act s)) <= hi (car s (act s));
  i_done : done s <= ak (car s (act s));
  i_akex : torn (car s (act s)) = false -> ak (car s (act s)) <= ex (car s (act s));
  i_torn : torn (car s (act s)) = true ->
           ak (car s (act s)) = S (ex (car s (act s))) /\ is_two (ex (car s (act s))) = true /\
           nb (car s (act s)) <= ex (car s (act s));
  i_fresh : forall e, act s < e -> hi (car s e) = 0 /\ ex (car s e) = 0;
  i_old : forall e, e < act s -> dead s e = true;
  i_log : map fst (log s) = twos (front s);
  i_recv : forall i n r, nth_error (log s) i = Some (n, r) -> r = i;
  i_head : head (car s (act s)) = length (log s);
  i_wrs : forall n, n < front s -> kind_of n = Wr -> In n (wrs s);
  i_ats : forall n, In n (ats s) -> n < ex (car s (act s)) /\ is_at n = true;
  i_once : NoDup (ats s);
  i_atnb : forall n, ex (car s (act s)) <= n < nb (car s (act s)) -> is_at n = false;
  i_ep : act s <= sep s;
  i_rep : act s <= rep s;
  i_still : moving s = false -> act s = sep s;
  i_gone : gone s <= sep s /\ gone s <= rep s;
  i_rerr : rerr s <= rep s;
  i_quiet : forall e, In e (quiet s) -> e <= sep s;
  i_msgs : forall e c, In (e, c) (msgs s) ->
           e <= rep s /\
           (act s < e -> length (log s) = c /\ head (car s e) = c /\
                         forall x, x < e -> dead s x = true);
  i_fin : fin s = false -> (rep s = 0 \/ act s < rep s) /\
          forall e c, In (e, c) (msgs s) -> e < rep s;
  i_heard : forall c, heard s = Some c -> moving s = true /\ In (sep s, c) (msgs s);
}.

Lemma inv_init : Inv init.
Proof.
  constructor; unfold front; simpl; intros; try tauto; try lia; try congruence; try constructor.
  destruct i; discriminate.
Qed.

Lemma guard_some {A} b (x y : A) : guard b x = Some y -> b = true /\ x = y.
Proof. destruct b; simpl; intros H; inversion H; auto. Qed.

Lemma upd_same {A} (f : nat -> A) e v : upd f e v e = v.
Proof. unfold upd. now rewrite Nat.eqb_refl. Qed.
Lemma upd_other {A} (f : nat -> A) e v x : x <> e -> upd f e v x = f x.
Proof. unfold upd. intros. destruct (Nat.eqb_spec x e); congruence. Qed.

(* Nothing runs but on the carrier in use. *)
Lemma live_is_act s e : Inv s -> dead s e = false -> ex (car s e) < hi (car s e) -> e = act s.
Proof.
  intros I D L. destruct (lt_eq_lt_dec e (act s)) as [[?|?]|?]; auto.
  - rewrite (i_old s I e) in D; congruence.
  - destruct (i_fresh s I e l). lia.
Qed.


Lemma front_bounds s : Inv s -> done s <= ak (car s (act s)) /\ front s <= hi (car s (act s)).
Proof. intros []. unfold front. lia. Qed.

(* Only a torn SEND is acknowledged beyond the front. *)
Lemma done_front s : Inv s -> done s <= front s \/
  (torn (car s (act s)) = true /\ done s = S (front s) /\ is_two (front s) = true).
Proof.
  intros I. unfold front. pose proof (i_done s I). destruct (torn (car s (act s))) eqn:T.
  - destruct (i_torn s I T) as (A & B & C). rewrite A in H.
    destruct (Nat.eq_dec (done s) (S (ex (car s (act s))))).
    + right. rewrite Nat.max_r by lia. auto.
    + left. lia.
  - pose proof (i_akex s I T). lia.
Qed.

Lemma log_rank s : Inv s -> length (log s) = rank (front s).
Proof. intros I. rewrite <- length_twos, <- (i_log s I), map_length. auto. Qed.

(* A count that was said for an epoch to come is the number of receives completed, and stays it. *)
Lemma msg_count s e c : Inv s -> In (e, c) (msgs s) -> act s < e -> c = rank (front s).
Proof. intros I M L. destruct (i_msgs s I e c M) as [_ H]. rewrite <- log_rank; auto. symmetry. now apply H. Qed.

Lemma settle_front s c : Inv s -> heard s = Some c -> act s < sep s -> rank (done s) <= c ->
  c <= rank (hi (car s (act s))) ->
  let b := region c (done s) (hi (car s (act s)) - done s) in
  c = rank (front s) /\ done s <= front s /\ done s <= b <= front s /\ rank b = c.
Proof.
  intros I Hh L R1 R2 b. destruct (i_heard s I c Hh) as [_ M].
  assert (C := msg_count s _ _ I M L).
  assert (D : done s <= front s).
  { destruct (done_front s I) as [?|(_ & E & T)]; auto. rewrite E in R1. simpl in R1.
    rewrite T in R1. simpl in R1. lia. }
  pose proof (front_bounds s I) as [_ F].
  repeat split; auto.
  - apply region_ge.
  - apply region_least; auto. lia.
  - apply region_rank; auto. replace (done s + _) with (hi (car s (act s))) by lia. auto.
Qed.

Lemma dead_mono s s' : gone s <= gone s' -> rerr s <= rerr s' ->
  (forall e, e < rerr s -> rsick s e = false -> rsick s' e = false) ->
  forall e, dead s e = true -> dead s' e = true.
Proof.
  unfold dead. intros G E K e H. apply orb_true_iff in H. apply orb_true_iff.
  destruct H as [H|H]; boole.
  - left. apply Nat.ltb_lt. lia.
  - right. rewrite (K e) by auto. simpl. rewrite andb_true_r. apply Nat.ltb_lt. lia.
Qed.

Ltac cars := repeat (rewrite upd_same in * || (rewrite upd_other in * by lia)).

Ltac old_msgs := match goal with
  | I : (forall e c, In (e, c) (msgs _) -> _), M : In (?e, ?c) (msgs _) |- _ <= _ /\ _ =>
    let X := fresh in let Y := fresh in
    destruct (I e c M) as [X Y]; split; [auto; lia | intros; cars; apply Y; lia]
  end.

Lemma step_inv s l s' : Inv s -> step s l = Some s' -> Inv s'.
Proof.
  intros I H. pose proof (front_bounds s I) as FB. pose proof I as I0.
  destruct l; simpl in H.
  - (* Post *) inversion H; subst; clear H. destruct I. constructor; simpl in *; auto; lia.
  - (* Ring *) apply guard_some in H as [G H]; subst; boole. destruct I. unfold set_car.
    constructor; unfold front in *; simpl in *; intros; cars; simpl in *; eauto; try lia.
    old_msgs.
  - (* Ack *) apply guard_some in H as [G H]; subst; boole. destruct I.
    constructor; simpl in *; auto; lia.
  - (* Leave *) apply guard_some in H as [G H]; subst; boole. destruct I.
    constructor; simpl in *; auto; try lia; try discriminate.
    intros x Hx. specialize (i_quiet0 x Hx). lia.
  - (* Quiesce *) inversion H; subst; clear H. destruct I. constructor; simpl in *; auto.
    intros e [?|?]; subst; auto.
  - (* Hear *) apply guard_some in H as [G H]; subst; boole. destruct I.
    constructor; simpl in *; auto. intros k E. inversion E; subst. split; auto.
    apply existsb_exists in H0 as ([e k'] & M & Q). simpl in Q. boole. subst. auto.
  - (* Settle *) destruct (heard s) as [c|] eqn:Hh; try discriminate.
    apply guard_some in H as [G H]; subst; boole.
    destruct (settle_front s c I Hh H3 H2 H1) as (C & D & [B1 B2] & B3).
    set (b := region c (done s) (hi (car s (act s)) - done s)) in *.
    destruct (i_heard s I c Hh) as [_ M]. destruct (i_msgs s I _ _ M) as [M1 M2].
    destruct (M2 H3) as (M3 & M4 & M5).
    pose proof (proj1 (no_at_spec _ _) H0) as NA.
    assert (F : Nat.max b (done s) = b) by lia.
    destruct I. constructor; unfold front in *; simpl in *; intros; cars; simpl in *; eauto; try lia;
      try discriminate.
    + apply i_fresh0. lia.
    + rewrite F, i_log0. apply twos_flat in B2; auto. congruence.
    + apply i_wrs0; auto. lia.
    + match goal with X : In ?m (ats s) |- _ => destruct (i_ats0 m X) as [Y Z]; split; auto;
        destruct (Nat.lt_ge_cases m (done s)); auto; rewrite NA in Z; [discriminate | lia] end.
    + apply NA. lia.
    + old_msgs.
    + match goal with X : fin s = false |- _ =>
        destruct (i_fin0 X) as [Y Z]; pose proof (Z _ _ M); split; auto; lia end.
  - (* Exec *) apply guard_some in H as [G H]; subst; boole.
    assert (e = act s) by (eapply live_is_act; eauto). subst e.
    destruct I. unfold nop in *. pose proof (i_akex0 H0) as AK.
    set (n := ex (car s (act s))) in *.
    assert (NB : nb (car s (act s)) <= n \/ is_rd n = true /\ n < nb (car s (act s))).
    { apply andb_false_iff in H1 as [?|?]; boole; auto. apply negb_false_iff in H1.
      destruct (Nat.lt_ge_cases n (nb (car s (act s)))); auto. }
    assert (RD : is_rd n = true -> is_two n = false /\ is_at n = false /\ kind_of n <> Wr).
    { unfold is_rd, is_two, is_at. destruct (kind_of n); repeat split; auto; congruence. }
    assert (FR : Nat.max (nb (car s (act s))) (S n) = S (front s) /\ front s = n \/
                 Nat.max (nb (car s (act s))) (S n) = front s /\ n < front s /\ is_rd n = true).
    { unfold front. fold n. destruct NB as [?|[? ?]]; [left | right]; repeat split; auto; lia. }
    fold n in i_hi0, i_ex0, i_ak0, i_nb0, i_done0, i_ats0, i_atnb0.
    constructor; unfold front; simpl; rewrite ?upd_same; simpl; fold n; intros; cars; eauto;
      try lia; try discriminate.
    + destruct FR as [[E F]|(E & F & R)]; rewrite E.
      * simpl. rewrite F. destruct (is_two n) eqn:T; rewrite ?app_nil_r.
        -- rewrite map_app, i_log0, F. auto.
        -- rewrite i_log0, F; auto.
      * destruct (RD R) as (T & _). rewrite T. auto.
    + destruct (is_two n) eqn:T; eauto.
      destruct (Nat.lt_ge_cases i (length (log s))).
      * rewrite nth_error_app1 in * by auto. eauto.
      * match goal with X : nth_error (_ ++ _) _ = _ |- _ => rewrite nth_error_app2 in X by auto;
          destruct (i - length (log s)) as [|k] eqn:Q; simpl in X;
          [inversion X; subst; lia | destruct k; discriminate] end.
    + destruct (is_two n); rewrite ?app_length; simpl; lia.
    + match goal with X : ?m < Nat.max _ _, K : kind_of ?m = Wr |- _ =>
        rename m into w; rename X into LT; rename K into KW end.
      destruct FR as [[E F]|(E & F & R)]; rewrite E in LT.
      * destruct (Nat.eq_dec w n) as [->|].
        -- rewrite KW. left; auto.
        -- assert (In w (wrs s)) by (apply i_wrs0; auto; lia). destruct (kind_of n); simpl; auto.
      * assert (In w (wrs s)) by (apply i_wrs0; auto; lia). destruct (kind_of n); simpl; auto.
    + match goal with X : In ?m (if _ then _ else _) |- _ => rename m into w; rename X into IW end.
      destruct (is_at n) eqn:T.
      * destruct IW as [?|X]; subst; auto. destruct (i_ats0 _ X). split; auto; lia.
      * destruct (i_ats0 _ IW). split; auto; lia.
    + destruct (is_at n); auto. constructor; auto. intros X. destruct (i_ats0 n X). lia.
    + apply i_atnb0. lia.
    + match goal with X : In (?e, ?c) (msgs s) |- _ =>
        destruct (i_msgs0 e c X) as [Y Z]; split; auto; intros V; exfalso;
        destruct (Z V) as (_ & _ & W); rewrite W in H; auto; discriminate end.
  - (* Skip *) apply guard_some in H as [G H]; subst; boole. unfold nop in *; boole.
    destruct I. assert (AK := i_akex0 ltac:(assumption)). unfold set_car.
    assert (NT : is_at (ex (car s (act s))) = false) by (apply i_atnb0; lia).
    constructor; unfold front in *; simpl in *; intros; cars; simpl in *; eauto; try lia;
      try discriminate.
    + rewrite i_log0. f_equal. lia.
    + apply i_wrs0; auto. lia.
    + match goal with X : In ?m (ats s) |- _ => destruct (i_ats0 m X); split; auto; lia end.
    + apply i_atnb0. lia.
    + old_msgs.
  - (* Tear *) apply guard_some in H as [G H]; subst; boole.
    assert (e = act s) by (eapply live_is_act; eauto). subst e.
    destruct I. assert (AK := i_akex0 ltac:(assumption)). unfold set_car.
    assert (NB : nb (car s (act s)) <= ex (car s (act s))).
    { unfold nop in *. destruct (Nat.lt_ge_cases (ex (car s (act s))) (nb (car s (act s)))); auto.
      exfalso. match goal with X : (_ <? _) && _ = false |- _ => rename X into N end.
      apply Nat.ltb_lt in H4. rewrite H4 in N. simpl in N. apply negb_false_iff in N.
      unfold is_rd, is_two in *. destruct (kind_of _); discriminate. }
    constructor; unfold front in *; simpl in *; intros; cars; simpl in *; eauto; try lia;
      try discriminate.
    old_msgs.
  - (* RLeave *) apply guard_some in H as [G H]; subst; boole. destruct I.
    constructor; unfold front in *; simpl in *; intros; cars; simpl in *; eauto; try lia;
      try discriminate.
    + match goal with X : In (?e, ?c) (msgs s) |- _ => destruct (i_msgs0 e c X); split; auto; lia end.
    + split; [lia|]. intros x c M. destruct (i_msgs0 x c M). lia.
  - (* RQuiesce *) inversion H; subst; clear H. destruct I.
    assert (DM := dead_mono s). 
    constructor; unfold front in *; simpl in *; intros; cars; simpl in *; eauto; try lia;
      try discriminate.
    + eapply dead_mono; [| | | eapply i_old0]; simpl; auto; lia.
    + match goal with X : In (?e, ?c) (msgs s) |- _ => destruct (i_msgs0 e c X) as [Y Z]; split; auto end.
      intros V. destruct (Z V) as (A & B & C). repeat split; auto. intros.
      eapply dead_mono; [| | | eapply C]; simpl; auto; lia.
  - (* RHang *) apply guard_some in H as [G H]; subst; boole. destruct I.
    constructor; unfold front in *; simpl in *; intros; cars; simpl in *; eauto; try lia;
      try discriminate.
    + eapply dead_mono; [| | | eapply i_old0]; simpl; auto.
      intros. rewrite upd_other by lia. auto.
    + match goal with X : In (?e, ?c) (msgs s) |- _ => destruct (i_msgs0 e c X) as [Y Z]; split; auto end.
      intros V. destruct (Z V) as (A & B & C). repeat split; auto. intros.
      eapply dead_mono; [| | | eapply C]; simpl; auto. intros. rewrite upd_other by lia. auto.
  - (* RLifetime *) apply guard_some in H as [G H]; subst; boole.
    apply existsb_exists in G as (q & Q1 & Q2). boole. subst q.
    pose proof (i_quiet s I _ Q1). destruct I.
    constructor; unfold front in *; simpl in *; intros; cars; simpl in *; eauto; try lia;
      try discriminate.
    + eapply dead_mono; [| | | eapply i_old0]; simpl; auto; lia.
    + match goal with X : In (?e, ?c) (msgs s) |- _ => destruct (i_msgs0 e c X) as [Y Z]; split; auto end.
      intros V. destruct (Z V) as (A & B & C). repeat split; auto. intros.
      eapply dead_mono; [| | | eapply C]; simpl; auto; lia.
  - (* Final *) apply guard_some in H as [G H]; subst; boole.
    pose proof (proj1 (all_dead_spec _ _) ltac:(eassumption)) as AD.
    destruct (i_fin s I ltac:(assumption)) as [F1 F2].
    assert (F3 : act s < rep s) by lia.
    assert (K : forall v, upd (car s) (rep s) v (act s) = car s (act s))
      by (intros; apply upd_other; lia).
    destruct I. constructor; unfold front; simpl; rewrite ?K; intros; eauto; try lia; try discriminate.
    + destruct (Nat.eq_dec e (rep s)) as [->|]; cars; simpl; auto.
    + match goal with X : _ = _ \/ In _ _ |- _ => destruct X as [E|IM] end.
      * inversion E; subst. split; auto. intros V. cars. auto.
      * specialize (F2 _ _ IM). destruct (i_msgs0 _ _ IM) as [Y Z]. split; auto.
        intros V. cars. apply Z. auto.
    + match goal with X : heard s = Some _ |- _ => destruct (i_heard0 _ X) end. split; auto.
Qed.

Theorem run_inv ls : forall s s', Inv s -> run ls s = Some s' -> Inv s'.
Proof.
  induction ls; simpl; intros s s' I H.
  - inversion H; subst; auto.
  - destruct (step s a) eqn:E; try discriminate. eauto using step_inv.
Qed.

Definition reachable s := exists ls, run ls init = Some s.

Lemma reachable_inv s : reachable s -> Inv s.
Proof. intros [ls H]. eauto using run_inv, inv_init. Qed.

(* ---- the promises ------------------------------------------------------------------------------ *)

(* P2: what R's application has received are the two-sided requests in the order in which they were
   posted, each once, none left out, and the i-th one in the i-th receive. *)
Theorem two_sided_exactly_once s : reachable s ->
  map fst (log s) = twos (front s) /\ map snd (log s) = seq 0 (length (log s)).
Proof.
  intros R. apply reachable_inv in R. split; [apply i_log; auto|].
  pose proof (i_recv s R) as H. clear R.
  assert (G : forall (l : list (nat * nat)) k, (forall i n r, nth_error l i = Some (n, r) -> r = k + i) ->
              map snd l = seq k (length l)).
  { induction l as [|[n r] l IH]; intros k Hk; simpl; auto.
    rewrite (Hk 0 n r eq_refl), Nat.add_0_r. f_equal. apply IH.
    intros i n' r' E. rewrite (Hk (S i) n' r' E). lia. }
  apply G. auto.
Qed.

Corollary two_sided_no_loss s n : reachable s -> n < front s -> is_two n = true ->
  exists r, In (n, r) (log s).
Proof.
  intros R L T. destruct (two_sided_exactly_once s R) as [E _].
  assert (In n (twos (front s))) by (apply in_twos; auto).
  rewrite <- E in H. apply in_map_iff in H as ([n' r] & Q & H). simpl in Q. subst. eauto.
Qed.

(* P1, for what the peer has to say: a completion means that it was executed; but for one SEND whose
   NIC died between its acknowledgement and its completion. That one is never settled (below). *)
Theorem completed_is_executed s n : reachable s -> n < done s ->
  n < front s \/ (torn (car s (act s)) = true /\ n = front s /\ is_two n = true).
Proof.
  intros R L. destruct (done_front s (reachable_inv s R)) as [?|(T & E & K)].
  - left; lia.
  - destruct (Nat.eq_dec n (front s)) as [->|]; auto. left; lia.
Qed.

Theorem torn_never_settles s s' : reachable s -> done s = S (front s) -> is_two (front s) = true ->
  step s Settle = Some s' -> False.
Proof.
  intros R E T H. apply reachable_inv in R. simpl in H.
  destruct (heard s) as [c|] eqn:Hh; try discriminate. apply guard_some in H as [G _]; boole.
  edestruct (settle_front s c R Hh); eauto. lia.
Qed.

(* P3: when a two-sided request has been received, all WRITEs posted before it are in memory. *)
Theorem writes_before_receive s n r m : reachable s -> In (n, r) (log s) -> m < n ->
  kind_of m = Wr -> In m (wrs s).
Proof.
  intros R L M K. pose proof (reachable_inv s R) as I. destruct (two_sided_exactly_once s R) as [E _].
  apply (in_map fst) in L. rewrite E in L. simpl in L. apply in_twos in L as [L _].
  apply (i_wrs s I); auto. lia.
Qed.

(* P4 *)
Theorem atomic_at_most_once s : reachable s -> NoDup (ats s).
Proof. intros R. apply (i_once s (reachable_inv s R)). Qed.

(* P5: a WRITE that is executed, also for the second time, has not completed, and no later SEND has
   been received: memory that the application of R may have used again is not written. *)
Theorem no_stale_write s e s' n : reachable s -> step s (Exec e) = Some s' ->
  n = ex (car s e) -> done s <= n /\
  (kind_of n = Wr -> forall m r, In (m, r) (log s) -> m < n).
Proof.
  intros R H E. pose proof (reachable_inv s R) as I. simpl in H.
  apply guard_some in H as [G _]; boole.
  assert (e = act s) by (eapply live_is_act; eauto). subst e.
  pose proof (i_akex s I ltac:(assumption)). pose proof (i_done s I). split; [lia|].
  intros K m r L. destruct (two_sided_exactly_once s R) as [Q _].
  apply (in_map fst) in L. rewrite Q in L. simpl in L. apply in_twos in L as [L _].
  unfold front, nop in *.
  match goal with X : _ && _ = false |- _ => apply andb_false_iff in X as [X|X]; boole end; [lia|].
  match goal with X : negb _ = false |- _ => apply negb_false_iff in X; rename X into Y end.
  unfold is_rd in Y. subst n. rewrite K in Y. discriminate.
Qed.

(* P5 as it is worded: when S lays requests into a new carrier, and ever after, R executes nothing of
   it on an older one. *)
Theorem old_carriers_are_dead s e : reachable s -> e < act s -> dead s e = true.
Proof. intros R. apply (i_old s (reachable_inv s R)). Qed.

(* The count never contradicts what was published. *)
Theorem never_more_than_published s c : reachable s -> heard s = Some c -> act s < sep s ->
  c <= rank (hi (car s (act s))).
Proof.
  intros R Hh L. apply reachable_inv in R. destruct (i_heard s R c Hh) as [_ M].
  rewrite (msg_count s _ _ R M L). apply rank_mono. apply front_bounds. auto.
Qed.

(* What the model takes from the world, that packets older than the longest lifetime are gone, is not
   used against what it does: nothing is rung on a carrier whose packets are said to be gone. *)
Theorem ring_not_on_gone s s' : reachable s -> step s Ring = Some s' -> gone s <= act s.
Proof.
  intros R H. apply reachable_inv in R. simpl in H. apply guard_some in H as [G _]; boole.
  rewrite (i_still s R ltac:(assumption)). apply (i_gone s R).
Qed.

End Dir.

(* ---- not vacuous ------------------------------------------------------------------------------- *)

(* WRITE SEND WRITE SEND ...; a fallback after the first SEND arrived and its acknowledgement was lost,
   and a second one with a NIC that hangs. *)
Definition ws n := if Nat.even n then Wr else Two.
Definition demo : list label :=
  [Post; Post; Post; Post; Ring; Exec 0; Exec 0; Exec 0; Leave 1; RLeave 1; Quiesce; RQuiesce;
   Final; Hear 1; Settle; Skip; Skip; Exec 1; Ack; Ack; Exec 1; RHang 1; RLeave 2; RQuiesce; Leave 2; Quiesce;
   RLifetime; Final; Hear 2; Settle; Skip; Skip; Ack; Ack].

Example demo_runs :
  option_map (fun s => (done s, front s, log s, wrs s)) (run ws demo init) =
  Some (4, 4, [(1, 0); (3, 1)], [2; 2; 0]).
Proof. vm_compute. reflexivity. Qed.
