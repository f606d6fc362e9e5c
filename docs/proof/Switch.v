(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* The ordered switch repeats nothing (switch.c; promise 9 of docs/model): a side leaves because both are fenced only
   if nothing is outstanding at either end, and the other end stays so until it has left as well. Any number of
   attempts, cancels, lost standbys and faults; STATE is lost, doubled, late, and crosses. *)
From Coq Require Import Arith List Bool Lia.
Import ListNotations.

(* Stranded: the carrier is lost, and what is posted is withheld until the side leaves. *)
Inductive phase := PNone | Prep | Fenced | Cancel | Stranded.
(* Asks: PREP or FENCED of that number, for the standby `goal`. Lost: so are all standbys up to `goal`. *)
Inductive word := Asks | IsFenced | Cancels | Lost.
Record msg := Msg { who : bool; about : nat; says : word; num : nat; goal : nat }.
Record side := Side {
  ep : nat; ph : phase;
  no : nat; tg : nat;  (* of this attempt, or the last one: its number, its standby *)
  pf : bool;           (* the peer is FENCED *)
  lost : nat;          (* standbys up to here are lost *)
  out : bool           (* something is outstanding *)
}.
Record st := St { sf : side; sr : side; hist : list msg; left : list (bool * nat * nat * nat) }.
Definition at_ (s : st) (b : bool) := if b then sr s else sf s.
Definition put s (b : bool) x ms := St (if b then sf s else x) (if b then x else sr s) (ms ++ hist s) (left s).
Definition init := let x := Side 0 PNone 0 0 false 0 false in St x x [] [].

Inductive label :=
| Work (b : bool) | Complete (b : bool) | Begin (b : bool) (n t : nat) | Fence (b : bool) | Back (b : bool)
| Strand (b : bool) | Lose (b : bool) (t : nat) | HearFenced (b : bool) | HearAsks (b : bool) (n t : nat) (join : bool)
| HearCancel (b : bool) (n : nat) | HearLost (b : bool) (t : nat) | LeaveOrdered (b : bool) (e : nat)
| LeaveFault (b : bool) (e : nat).

Definition heard s b w n t := In (Msg (negb b) (ep (at_ s b)) w n t) (hist s).
Definition switching x := ph x = Prep \/ ph x = Fenced.
Definition open x := ph x <> Fenced /\ ph x <> Stranded.

Inductive step (s : st) : label -> st -> Prop :=
| SWork b x : x = at_ s b -> open x ->
    step s (Work b) (put s b (Side (ep x) (ph x) (no x) (tg x) (pf x) (lost x) true) [])
| SComplete b x : x = at_ s b ->
    step s (Complete b) (put s b (Side (ep x) (ph x) (no x) (tg x) (pf x) (lost x) false) [])
| SBegin b n t x : x = at_ s b -> ~ switching x -> ph x <> Stranded -> no x < n ->
    step s (Begin b n t) (put s b (Side (ep x) Prep n t false (lost x) (out x)) [Msg b (ep x) Asks n t])
| SFence b x : x = at_ s b -> ph x = Prep -> out x = false ->
    step s (Fence b) (put s b (Side (ep x) Fenced (no x) (tg x) (pf x) (lost x) false)
                          [Msg b (ep x) IsFenced (no x) (tg x); Msg b (ep x) Asks (no x) (tg x)])
| SBack b x : x = at_ s b -> ph x = Prep ->  (* before the own FENCED *)
    step s (Back b) (put s b (Side (ep x) Cancel (no x) (tg x) false (lost x) (out x)) [Msg b (ep x) Cancels (no x) 0])
| SStrand b x : x = at_ s b ->
    step s (Strand b) (put s b (Side (ep x) Stranded (no x) (tg x) false (lost x) (out x)) [])
| SLose b t x : x = at_ s b ->
    step s (Lose b t) (put s b (Side (ep x) (ph x) (no x) (tg x) (pf x) (Nat.max (lost x) t) (out x))
                           [Msg b (ep x) Lost 0 t])
| SHearFenced b x : x = at_ s b -> switching x -> heard s b IsFenced (no x) (tg x) ->
    step s (HearFenced b) (put s b (Side (ep x) (ph x) (no x) (tg x) true (lost x) (out x)) [])
| SHearAsks b n t x (join : bool) : x = at_ s b -> ph x <> Stranded -> no x < n -> heard s b Asks n t ->
    step s (HearAsks b n t join)
      (put s b (Side (ep x) (if join then Prep else Cancel) n t false (lost x) (out x))
           [if join then Msg b (ep x) Asks n t else Msg b (ep x) Cancels n 0; Msg b (ep x) Cancels (no x) 0])
| SHearCancel b n x : x = at_ s b -> ph x <> Stranded -> no x <= n -> heard s b Cancels n 0 ->
    step s (HearCancel b n) (put s b (Side (ep x) Cancel n (tg x) false (lost x) (out x))
                                 [Msg b (ep x) Cancels n 0; Msg b (ep x) Cancels (no x) 0])
| SHearLost b t x : x = at_ s b -> switching x -> tg x <= t -> heard s b Lost 0 t ->
    step s (HearLost b t) (put s b (Side (ep x) Cancel (no x) (tg x) false (lost x) (out x))
                               [Msg b (ep x) Cancels (no x) 0])
| SLeaveOrdered b e x : x = at_ s b -> ph x = Fenced -> pf x = true -> lost x < tg x -> e = tg x -> ep x < e ->
    step s (LeaveOrdered b e)
      (let s' := put s b (Side e PNone (no x) (tg x) false (lost x) false) [Msg b e Lost 0 (lost x)] in
       St (sf s') (sr s') (hist s') ((b, ep x, no x, tg x) :: left s))
| SLeaveFault b e x : x = at_ s b -> ep x < e -> lost x < e -> (* a number never serves twice *)
    step s (LeaveFault b e) (put s b (Side e PNone (no x) (tg x) false (lost x) (out x)) [Msg b e Lost 0 (lost x)]).

Inductive reach : st -> Prop := R0 : reach init | R1 s l s' : reach s -> step s l s' -> reach s'.

(* ---- the same as a function --------------------------------------------------------------------- *)

Definition word_eqb a b :=
  match a, b with Asks, Asks | IsFenced, IsFenced | Cancels, Cancels | Lost, Lost => true | _, _ => false end.
Definition heardb s b w n t :=
  existsb (fun m => Bool.eqb (who m) (negb b) && (about m =? ep (at_ s b)) && word_eqb (says m) w && (num m =? n) &&
                    (goal m =? t)) (hist s).
Definition is_ph p x := match p, ph x with
  | PNone, PNone | Prep, Prep | Fenced, Fenced | Cancel, Cancel | Stranded, Stranded => true | _, _ => false end.
Definition switchingb x := is_ph Prep x || is_ph Fenced x.

Definition exec (s : st) (l : label) : option st :=
  let on (b g : bool) x ms := if g then Some (put s b x ms) else None in
  match l with
  | Work b => let x := at_ s b in on b (negb (is_ph Fenced x || is_ph Stranded x))
      (Side (ep x) (ph x) (no x) (tg x) (pf x) (lost x) true) []
  | Complete b => let x := at_ s b in on b true (Side (ep x) (ph x) (no x) (tg x) (pf x) (lost x) false) []
  | Begin b n t => let x := at_ s b in on b (negb (switchingb x) && negb (is_ph Stranded x) && (no x <? n))
      (Side (ep x) Prep n t false (lost x) (out x)) [Msg b (ep x) Asks n t]
  | Fence b => let x := at_ s b in on b (is_ph Prep x && negb (out x))
      (Side (ep x) Fenced (no x) (tg x) (pf x) (lost x) false)
      [Msg b (ep x) IsFenced (no x) (tg x); Msg b (ep x) Asks (no x) (tg x)]
  | Back b => let x := at_ s b in on b (is_ph Prep x)
      (Side (ep x) Cancel (no x) (tg x) false (lost x) (out x)) [Msg b (ep x) Cancels (no x) 0]
  | Strand b => let x := at_ s b in on b true (Side (ep x) Stranded (no x) (tg x) false (lost x) (out x)) []
  | Lose b t => let x := at_ s b in on b true
      (Side (ep x) (ph x) (no x) (tg x) (pf x) (Nat.max (lost x) t) (out x)) [Msg b (ep x) Lost 0 t]
  | HearFenced b => let x := at_ s b in on b (switchingb x && heardb s b IsFenced (no x) (tg x))
      (Side (ep x) (ph x) (no x) (tg x) true (lost x) (out x)) []
  | HearAsks b n t join => let x := at_ s b in on b (negb (is_ph Stranded x) && (no x <? n) && heardb s b Asks n t)
      (Side (ep x) (if join then Prep else Cancel) n t false (lost x) (out x))
      [if join then Msg b (ep x) Asks n t else Msg b (ep x) Cancels n 0; Msg b (ep x) Cancels (no x) 0]
  | HearCancel b n => let x := at_ s b in on b (negb (is_ph Stranded x) && (no x <=? n) && heardb s b Cancels n 0)
      (Side (ep x) Cancel n (tg x) false (lost x) (out x)) [Msg b (ep x) Cancels n 0; Msg b (ep x) Cancels (no x) 0]
  | HearLost b t => let x := at_ s b in on b (switchingb x && (tg x <=? t) && heardb s b Lost 0 t)
      (Side (ep x) Cancel (no x) (tg x) false (lost x) (out x)) [Msg b (ep x) Cancels (no x) 0]
  | LeaveOrdered b e => let x := at_ s b in
      if is_ph Fenced x && pf x && (lost x <? tg x) && (e =? tg x) && (ep x <? e) then
        let s' := put s b (Side e PNone (no x) (tg x) false (lost x) false) [Msg b e Lost 0 (lost x)] in
        Some (St (sf s') (sr s') (hist s') ((b, ep x, no x, tg x) :: left s))
      else None
  | LeaveFault b e => let x := at_ s b in on b ((ep x <? e) && (lost x <? e))
      (Side e PNone (no x) (tg x) false (lost x) (out x)) [Msg b e Lost 0 (lost x)]
  end.

Lemma heardb_ok s b w n t : heardb s b w n t = true <-> heard s b w n t.
Proof.
  unfold heardb, heard. rewrite existsb_exists. split.
  - intros ([p a v k g] & M & E). simpl in E.
    repeat (apply andb_prop in E as [E ?]). apply eqb_prop in E. apply Nat.eqb_eq in H, H0, H2. subst.
    replace v with w in M by (destruct v, w; simpl in *; congruence). auto.
  - intros M. eexists. split; [exact M|]. simpl. rewrite eqb_reflx, !Nat.eqb_refl. destruct w; reflexivity.
Qed.
Lemma is_ph_ok p x : is_ph p x = true <-> ph x = p.
Proof. unfold is_ph. destruct p, (ph x); split; congruence. Qed.
Lemma switchingb_ok x : switchingb x = true <-> switching x.
Proof. unfold switchingb, switching. rewrite orb_true_iff, !is_ph_ok. tauto. Qed.
Lemma not_true b : negb b = true <-> ~ b = true.
Proof. destruct b; simpl; split; congruence. Qed.

Ltac reads := rewrite ?andb_true_iff, ?not_true, ?orb_true_iff, ?is_ph_ok, ?switchingb_ok, ?heardb_ok, ?Nat.ltb_lt,
  ?Nat.leb_le, ?Nat.eqb_eq, ?not_true_iff_false in *.

Theorem exec_is_step s l s' : exec s l = Some s' <-> step s l s'.
Proof.
  split.
  - unfold exec. destruct l; cbv zeta;
      try (match goal with |- (if ?g then _ else _) = _ -> _ => destruct g eqn:G end; [|discriminate]); intros H;
      injection H as <-; reads; econstructor; try reflexivity; unfold open; try tauto.
  - intros H. destruct H; subst x; unfold exec, open in *; cbv zeta;
      match goal with
      | |- (if ?g then _ else _) = _ => assert (G : g = true) by (reads; tauto); rewrite G
      | _ => idtac
      end; reflexivity.
Qed.

(* ---- what holds always -------------------------------------------------------------------------- *)

(* b said, while at e, that it will not leave by attempt n for standby t. *)
Definition burnt s b e n t := exists m, In m (hist s) /\ who m = b /\ about m = e /\
  ((says m = Cancels /\ n <= num m) \/ (says m = Asks /\ n < num m) \/ (says m = Lost /\ t <= goal m)).
(* Nothing is outstanding, and nothing will be before it leaves, unless the peer says that it stays. *)
Definition still x e n t := ep x = e /\ ((ph x = Fenced /\ no x = n /\ tg x = t) \/ (ph x = Stranded /\ out x = false)).

Record Inv (s : st) : Prop := {
  v_out : forall b, ph (at_ s b) = Fenced -> out (at_ s b) = false;
  v_past : forall m, In m (hist s) -> about m <= ep (at_ s (who m));
  v_no : forall m, In m (hist s) -> about m = ep (at_ s (who m)) -> says m <> Lost -> num m <= no (at_ s (who m));
  v_lost : forall m, In m (hist s) -> about m = ep (at_ s (who m)) -> says m = Lost -> goal m <= lost (at_ s (who m));
  v_burnt : forall b, burnt s b (ep (at_ s b)) (no (at_ s b)) (tg (at_ s b)) -> switching (at_ s b) ->
    tg (at_ s b) <= lost (at_ s b);
  v_fenced : forall m, In m (hist s) -> says m = IsFenced ->
    about m < ep (at_ s (who m)) \/ still (at_ s (who m)) (about m) (num m) (goal m) \/
    burnt s (negb (who m)) (about m) (num m) (goal m);
  v_pf : forall b, pf (at_ s b) = true -> heard s b IsFenced (no (at_ s b)) (tg (at_ s b));
  v_left : forall b e n t, In (b, e, n, t) (left s) -> e < ep (at_ s b) /\ ~ burnt s b e n t /\
    (e < ep (at_ s (negb b)) \/ still (at_ s (negb b)) e n t)
}.

Lemma at_put s b x ms c : at_ (put s b x ms) c = if Bool.eqb b c then x else at_ s c.
Proof. destruct b, c; reflexivity. Qed.

Lemma burnt_put s b x ms c e n t : burnt (put s b x ms) c e n t ->
  burnt s c e n t \/ exists m, In m ms /\ who m = c /\ about m = e /\
    ((says m = Cancels /\ n <= num m) \/ (says m = Asks /\ n < num m) \/ (says m = Lost /\ t <= goal m)).
Proof.
  intros (m & M & R). simpl in M. apply in_app_iff in M as [M|M]; [right|left]; exists m; auto.
Qed.
Lemma burnt_mono s b x ms c e n t : burnt s c e n t -> burnt (put s b x ms) c e n t.
Proof. intros (m & M & R). exists m. split; auto. simpl. apply in_app_iff. auto. Qed.

Lemma frame s b x' ms : Inv s ->
  (ph x' = Fenced -> out x' = false) ->
  ep (at_ s b) <= ep x' ->
  (forall m, In m ms -> who m = b /\ about m = ep x' /\ (says m = Lost -> goal m <= lost x') /\
                        (says m <> Lost -> num m <= no x')) ->
  (ep x' = ep (at_ s b) -> no (at_ s b) <= no x' /\ lost (at_ s b) <= lost x') ->
  (burnt (put s b x' ms) b (ep x') (no x') (tg x') -> switching x' -> tg x' <= lost x') ->
  (forall m, In m ms -> says m = IsFenced -> still x' (about m) (num m) (goal m)) ->
  (forall e n t, still (at_ s b) e n t -> e < ep x' \/ still x' e n t \/ burnt s (negb b) e n t) ->
  (pf x' = true -> In (Msg (negb b) (ep x') IsFenced (no x') (tg x')) (hist s)) ->
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
      apply eqb_prop in E. intros A L. pose proof (v_past s I m M) as P. pose proof (v_no s I m M) as N.
      rewrite <- E in *. assert (Q : ep x' = ep (at_ s b)) by lia. rewrite <- Q in N.
      specialize (N A L). destruct (C4 Q). lia.
  - intros m M. rewrite at_put. simpl in M. apply in_app_iff in M as [M|M].
    + destruct (C3 m M) as (W & _ & N & _). rewrite W, eqb_reflx. auto.
    + destruct (Bool.eqb b (who m)) eqn:E; [|apply (v_lost s I); auto].
      apply eqb_prop in E. intros A L. pose proof (v_past s I m M) as P. pose proof (v_lost s I m M) as N.
      rewrite <- E in *. assert (Q : ep x' = ep (at_ s b)) by lia. rewrite <- Q in N.
      specialize (N A L). destruct (C4 Q). lia.
  - intros c. rewrite at_put. destruct (Bool.eqb b c) eqn:E.
    + apply eqb_prop in E; subst c. auto.
    + intros B. apply (v_burnt s I). apply burnt_put in B as [B|(m & M & W & _)]; auto.
      destruct (C3 m M) as (W' & _). rewrite W' in W. subst c. rewrite eqb_reflx in E. discriminate.
  - intros m M S. simpl in M. apply in_app_iff in M as [M|M].
    + destruct (C3 m M) as (W & _). rewrite at_put, W, eqb_reflx. auto.
    + rewrite at_put. destruct (v_fenced s I m M S) as [L|[L|L]].
      * left. destruct (Bool.eqb b (who m)) eqn:E; auto. apply eqb_prop in E. rewrite <- E in L.
        lia.
      * destruct (Bool.eqb b (who m)) eqn:E; auto. apply eqb_prop in E. rewrite <- E in *.
        destruct (C7 _ _ _ L) as [?|[?|?]]; auto. right; right. apply burnt_mono; auto.
      * right; right. apply burnt_mono; auto.
  - intros c. unfold heard. rewrite !at_put. simpl. destruct (Bool.eqb b c) eqn:E.
    + apply eqb_prop in E; subst c. intros P. apply in_app_iff. auto.
    + intros P. apply in_app_iff. right. exact (v_pf s I c P).
  - intros c e n t L. simpl in L. destruct (v_left s I c e n t L) as (E & B & K). rewrite !at_put.
    split; [|split].
    + destruct (Bool.eqb b c) eqn:Q; auto. apply eqb_prop in Q; subst. lia.
    + intros X. apply burnt_put in X as [X|(m & M & W & A & _)]; auto.
      destruct (C3 m M) as (W' & A' & _). rewrite W' in W. subst c. lia.
    + destruct (Bool.eqb b (negb c)) eqn:Q; auto. apply eqb_prop in Q; subst b.
      destruct K as [K|K]; [left; lia|]. destruct (C7 _ _ _ K) as [?|[?|X]]; auto.
      rewrite negb_involutive in X. tauto.
Qed.

Lemma inv_init : Inv init.
Proof.
  constructor.
  - intros []; discriminate.
  - intros m [].
  - intros m [].
  - intros m [].
  - intros b (m & [] & _).
  - intros m [].
  - intros []; discriminate.
  - intros b e n t [].
Qed.

(* A number that is burnt was heard of, or its standby is lost. *)
Lemma burnt_old s b n t : Inv s -> burnt s b (ep (at_ s b)) n t -> n <= no (at_ s b) \/ t <= lost (at_ s b).
Proof.
  intros I (m & M & W & A & R). pose proof (v_no s I m M) as N. pose proof (v_lost s I m M) as L. rewrite W in *.
  specialize (N A). specialize (L A).
  destruct R as [[R ?]|[[R ?]|[R ?]]]; rewrite R in *;
    try (left; assert (Q : num m <= no (at_ s b)) by (apply N; discriminate); lia).
  right. specialize (L eq_refl). lia.
Qed.

(* What was said of this epoch, and what is said now. *)
Ltac said B := let m := fresh in let M := fresh in let W := fresh in let A := fresh in let R := fresh in
  apply burnt_put in B as [B|(m & M & W & A & R)];
  [|exfalso; simpl in M; repeat (destruct M as [M|M]; [subst m; simpl in *;
      destruct R as [[R ?]|[[R ?]|[R ?]]]; try discriminate; lia|]); contradiction].
Ltac easy_goal := solve [auto | lia | discriminate | tauto
  | intros; simpl in *; intuition (subst; simpl in *; auto; try lia; try discriminate)
  | intros; unfold still, switching in *; simpl in *; intuition (subst; simpl in *; auto; try lia; try discriminate; try congruence)].
Ltac frame I := apply frame; [assumption|..]; simpl; try easy_goal;
  try match goal with |- _ = true -> In _ _ => let P := fresh in intros P; exact (v_pf _ I _ P) end;
  try match goal with |- _ = Fenced -> _ = false => let P := fresh in intros P; apply (v_out _ I); auto end.

Lemma step_inv s l s' : Inv s -> step s l s' -> Inv s'.
Proof.
  intros I H. destruct H; subst x; simpl.
  - (* Work *) destruct H0 as [NF NS]. frame I. all: try (intros B; said B; exact (v_burnt s I b B)).
  - (* Complete *) frame I. intros B. said B. exact (v_burnt s I b B).
  - (* Begin *) frame I. intros B. said B. destruct (burnt_old s b n t I B); auto; lia.
  - (* Fence *) frame I. intros B. said B. intros _. apply (v_burnt s I b B). left; auto.
  - (* Back *) frame I.
  - (* Strand *) frame I. intros e n t (E & [(P & N & T)|(P & O)]); right; left; split; simpl; auto.
    right. split; auto. apply (v_out s I); auto.
  - (* Lose *) frame I. intros B S. apply burnt_put in B as [B|(m & M & W & A & R)].
    + pose proof (v_burnt s I b B S). lia.
    + simpl in M. destruct M as [M|[]]. subst m. simpl in R. intuition (try discriminate; lia).
  - (* HearFenced *) frame I. intros B. said B. intros _. apply (v_burnt s I b B). auto.
  - (* HearAsks *) destruct join; frame I.
    all: try (intros B; said B; destruct (burnt_old s b n t I B); auto; lia).
    all: intros e k g (E1 & [(E2 & E3 & E4)|(E2 & _)]); [|contradiction]; right; right;
      eexists; split; [exact H2|]; simpl; repeat split; auto; right; left; split; auto; lia.
  - (* HearCancel *) frame I.
    intros e k g (E1 & [(E2 & E3 & E4)|(E2 & _)]); [|contradiction]; right; right;
      eexists; split; [exact H2|]; simpl; repeat split; auto; left; split; auto; lia.
  - (* HearLost *) frame I.
    intros e k g (E1 & [(E2 & E3 & E4)|(E2 & _)]); [|destruct H0; congruence]; right; right;
      eexists; split; [exact H2|]; simpl; repeat split; auto; right; right; split; auto; lia.
  - (* LeaveOrdered *)
    assert (J : Inv (put s b (Side e PNone (no (at_ s b)) (tg (at_ s b)) false (lost (at_ s b)) false)
                         [Msg b e Lost 0 (lost (at_ s b))])).
    { frame I. }
    destruct J. constructor; auto; simpl in *.
    intros c f n t [E|L]; [|apply v_left0; auto]. inversion E; clear E. subst c f n t.
    set (x := Side e PNone (no (at_ s b)) (tg (at_ s b)) false (lost (at_ s b)) false) in *.
    set (ms := [Msg b e Lost 0 (lost (at_ s b))]) in *.
    assert (NB : ~ burnt s b (ep (at_ s b)) (no (at_ s b)) (tg (at_ s b))).
    { intros B. pose proof (v_burnt s I b B (or_intror H0)). lia. }
    change (ep (at_ s b) < ep (at_ (put s b x ms) b) /\
      ~ burnt (put s b x ms) b (ep (at_ s b)) (no (at_ s b)) (tg (at_ s b)) /\
      (ep (at_ s b) < ep (at_ (put s b x ms) (negb b)) \/
       still (at_ (put s b x ms) (negb b)) (ep (at_ s b)) (no (at_ s b)) (tg (at_ s b)))).
    rewrite !at_put, eqb_reflx. replace (Bool.eqb b (negb b)) with false by (destruct b; auto).
    split; [simpl; auto|]. split.
    + intros B. apply burnt_put in B as [B|(m & M & W & A & _)]; auto.
      destruct M as [M|[]]. subst m. simpl in A. lia.
    + pose proof (v_pf s I b H1) as M. destruct (v_fenced s I _ M eq_refl) as [X|[X|X]]; simpl in X; auto.
      rewrite negb_involutive in X. tauto.
  - (* LeaveFault *) frame I.
Qed.

Theorem reach_inv s : reach s -> Inv s.
Proof. induction 1; eauto using inv_init, step_inv. Qed.

Lemma still_is_idle s b e n t : Inv s -> still (at_ s b) e n t -> out (at_ s b) = false.
Proof. intros I (_ & [(F & _)|(_ & O)]); auto. apply (v_out s I); auto. Qed.

(* The other end stays fenced, or stranded, with nothing outstanding, until it has left as well. *)
Theorem the_other_end_waits s b e n t : Inv s -> In (b, e, n, t) (left s) ->
  e < ep (at_ s (negb b)) \/ out (at_ s (negb b)) = false.
Proof.
  intros I L. destruct (v_left s I b e n t L) as (_ & _ & [?|K]); auto.
  right. eapply still_is_idle; eauto.
Qed.

Theorem an_ordered_switch_repeats_nothing s b e s' : reach s -> step s (LeaveOrdered b e) s' ->
  out (at_ s b) = false /\ (ep (at_ s b) < ep (at_ s (negb b)) \/
                            (ep (at_ s (negb b)) = ep (at_ s b) /\ out (at_ s (negb b)) = false)).
Proof.
  intros R H. pose proof (reach_inv s R) as I. inversion H; subst. split; [apply (v_out s I); auto|].
  pose proof (v_pf s I b ltac:(auto)) as M.
  destruct (v_fenced s I _ M eq_refl) as [L|[L|B]]; simpl in *; auto.
  - right. split; [apply L|]. eapply still_is_idle; eauto.
  - rewrite negb_involutive in B. pose proof (v_burnt s I b B ltac:(right; auto)). lia.
Qed.

(* ---- runs --------------------------------------------------------------------------------------- *)

Fixpoint run (ls : list label) (s : st) : option st :=
  match ls with [] => Some s | l :: ls => match exec s l with Some s' => run ls s' | None => None end end.
Lemma run_reach ls : forall s s', reach s -> run ls s = Some s' -> reach s'.
Proof.
  induction ls; simpl; intros s s' R H. { inversion H; subst; auto. }
  destruct (exec s a) eqn:E; try discriminate. apply exec_is_step in E. eauto using R1.
Qed.
Definition see {A} (f : st -> A) ls := match run ls init with Some s => Some (f s) | None => None end.

(* Not vacuous: both fence, one leaves, the other waits. *)
Definition both := [Begin false 1 1; HearAsks true 1 1 true; Fence false; Fence true; HearFenced true].
Example happens : see (fun s => (left s, ep (sr s), ph (sf s), out (sf s))) (both ++ [LeaveOrdered true 1])
  = Some ([(true, 0, 1, 1)], 1, Fenced, false).
Proof. vm_compute. reflexivity. Qed.
(* A standby that the peer has lost leads back. *)
Example goes_back : see (fun s => (ph (sf s), left s))
  ([Begin false 1 1; Lose true 1; HearAsks true 1 1 true; Fence false; HearLost false 1; Work false]) = Some (Cancel, []).
Proof. vm_compute. reflexivity. Qed.

(* Rules taken out, by their names in docs/model. The own FENCED is enough to leave: all that LeaveOrdered asks for but
   the peer's word is there, and the peer has something outstanding. *)
Example leave_without_peer :
  see (fun s => (ph (sf s), pf (sf s), Nat.eqb (ep (sf s)) (ep (sr s)), out (sr s)))
      [Begin false 1 1; HearAsks true 1 1 true; Work true; Fence false] = Some (Fenced, false, true, true).
Proof. vm_compute. reflexivity. Qed.
(* ... and go on, the rule taken out. *)
Definition break ls (f : st -> st) ms {A} (g : st -> A) :=
  match run ls init with
  | Some s => match run ms (f s) with Some s' => Some (g s') | None => None end
  | None => None
  end.
(* After its own FENCED a side goes back by itself: the peer has left, and there is work again. *)
Example back_after_fenced :
  break (both ++ [LeaveOrdered true 1]) (fun s => put s false (Side 0 Cancel 1 1 false 0 false) [Msg false 0 Cancels 1 0])
    [Work false] (fun s => (left s, ep (sf s), out (sf s))) = Some ([(true, 0, 1, 1)], 0, true).
Proof. vm_compute. reflexivity. Qed.
(* The number of a cancelled attempt serves again: the FENCED of the first one is heard in the second, while the peer,
   which has gone back, has work outstanding. *)
Example number_used_again :
  break [Begin false 1 1; HearAsks true 1 1 true; Fence true; Back false; HearCancel true 1; Work true]
    (fun s => put s false (Side 0 Prep 1 1 false 0 false) [Msg false 0 Asks 1 1])
    [Fence false; HearFenced false; LeaveOrdered false 1] (fun s => (left s, ep (sr s), out (sr s)))
  = Some ([(false, 0, 1, 1)], 0, true).
Proof. vm_compute. reflexivity. Qed.
