(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Makes acceptor.ml of docs/proof/Dir.v. *)
From Shift Require Import Dir.
Require Extraction.
Require Import ExtrOcamlBasic ExtrOcamlNatInt.
Extraction Language OCaml.
Extraction "acceptor.ml" step init front.
