(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Makes acceptor.ml of docs/proof/Whole.v, and of Dir.v, which it is made of. *)
From Shift Require Import Dir Whole.
Require Extraction.
Require Import ExtrOcamlBasic ExtrOcamlNatInt.
Extraction Language OCaml.
Extraction "acceptor.ml" Dir.step Dir.init front Whole.wstep Whole.start.
