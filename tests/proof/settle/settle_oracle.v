(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Makes settle_oracle.ml of docs/proof/Settle.v and Exact.v. *)
From Shift Require Import Settle Exact.
Require Extraction.
Require Import ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt.
Extraction Language OCaml.
Extraction "settle_oracle.ml" sc_settle sc_settle_exact behind.
