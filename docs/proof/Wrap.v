(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Dir.v counts without end; the core's counts and epochs are 32 bits wide (uint32_t, sc_epoch_cmp). Where no more
   than half of them lies between two that are compared, it is the same. *)
From Coq Require Import ZArith Lia.
Local Open Scope Z_scope.

Definition range := 4294967296. (* 2^32 *)
Definition half := 2147483648.

(* uint32_t a - b *)
Definition minus32 a b := (a - b) mod range.
(* sc_epoch_cmp(): (int32_t)(a - b) *)
Definition epoch_cmp a b := let u := minus32 a b in if u <? half then u else u - range.

Lemma minus32_mod a b : minus32 (a mod range) (b mod range) = minus32 a b.
Proof. unfold minus32. symmetry. apply Zminus_mod. Qed.

(* settle.c: peer - done, posted - done *)
Theorem count_survives_the_wrap d k : 0 <= k < range -> minus32 ((d + k) mod range) (d mod range) = k.
Proof. intros H. rewrite minus32_mod. unfold minus32. replace (d + k - d) with k by lia.
apply Z.mod_small. auto. Qed.

(* A peer that is said to have received less than what had completed is never taken for one that received more. *)
Theorem count_below_is_seen d k room : 0 < k <= half -> 0 <= room < half ->
  room < minus32 ((d - k) mod range) (d mod range).
Proof.
  intros H R. rewrite minus32_mod. unfold minus32.
  replace (d - k - d) with (range - k + (-1) * range) by lia.
  rewrite Z_mod_plus_full, Z.mod_small; unfold range, half in *; lia.
Qed.

Theorem epoch_order_survives_the_wrap a b : - half < a - b < half ->
  epoch_cmp (a mod range) (b mod range) = a - b.
Proof.
  intros H. unfold epoch_cmp. cbv zeta. rewrite minus32_mod. unfold minus32.
  destruct (Z.le_gt_cases b a).
  - rewrite Z.mod_small by (unfold range, half in *; lia).
    destruct (Z.ltb_spec (a - b) half); lia.
  - assert (E : (a - b) mod range = range + (a - b)).
    { replace (a - b) with (range + (a - b) + (-1) * range) at 1 by lia.
      rewrite Z_mod_plus_full, Z.mod_small; unfold range, half in *; lia. }
    rewrite E. destruct (Z.ltb_spec (range + (a - b)) half); unfold range, half in *; lia.
Qed.
