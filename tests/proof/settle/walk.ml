(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* walk N: the proven function's answers for all lists of up to N requests, a line each. Questions and words are
   those of asked.c. *)
open Settle_oracle

let kinds = [| KWrite; KRead; KTwo; KAtomic; KLocal |]
(* Only a READ or an atomic has an answer. *)
let symbols =
  List.concat_map (fun k ->
    List.concat_map (fun bits ->
      let r = { kind = kinds.(k); published = bits land 1 = 1; send_fence = bits land 2 = 2; answered = bits land 4 = 4 } in
      if r.answered && k <> 1 && k <> 3 then [] else [ r ])
      [ 0; 1; 2; 3; 4; 5; 6; 7 ])
    [ 0; 1; 2; 3; 4 ]
  |> Array.of_list

let letter = function Delivered -> 'D' | ReadAgain -> 'A' | Resend -> 'R'
let digit = function RNone -> '0' | RMiscount -> '1' | RAtomic -> '2' | RFencedRead -> '3'
let wrap x = x land 0xffffffff

let say b a doubted =
  Buffer.add_char b (digit a.why);
  if a.why <> RMiscount || a.unplaced then begin
    List.iter (fun f -> Buffer.add_char b (letter f)) a.fates;
    Buffer.add_char b (Char.chr (48 + a.delivered));
    Buffer.add_char b (if a.unplaced then 'u' else ' ');
    if doubted then Buffer.add_char b '?'
  end
let answer b l c = say b (sc_settle l c) false

(* With an expected PSN, of each packet and of one too many. Bit i of pack: request i has two packets. *)
let wraps_soon = 0xfffffe
let psns = 0x1000000
let ask_of_packets b l n don pack =
  let two = List.length (List.filter (fun r -> r.kind = KTwo && r.published) l) in
  let base = if List.exists (fun r -> r.published) l then wraps_soon else 0 in
  let numbered = List.mapi (fun i r -> (r, if r.kind = KLocal then 0 else 1 + (pack lsr i) land 1)) l in
  let total = List.fold_left (fun sum (r, p) -> sum + if r.published then p else 0) 0 numbered in
  for k = -1 to n + 1 do
    for flags = 0 to 2 do
      for taken = 0 to total + 1 do
        let c = { c_done = don; c_posted = wrap (don + two); c_peer = wrap (don + k); recalled = flags > 0;
                  cut_off = flags = 2; seen_unplaced = flags = 2 } in
        let a, doubted = sc_settle_exact numbered c (Some (behind ((base + taken) mod psns) base)) in
        say b a doubted
      done
    done
  done
let ask_exact b l n don =
  if n < 4 then
    for pack = 0 to (if n < 3 then 1 lsl n else 2) - 1 do ask_of_packets b l n don (if n < 3 then pack else 2 * pack) done

let () =
  let n_max = int_of_string Sys.argv.(1) and base = Array.length symbols and b = Buffer.create 70000 in
  let total = ref 1 in
  for n = 0 to n_max do
    for code = 0 to !total - 1 do
      let rec list i code = if i = n then [] else symbols.(code mod base) :: list (i + 1) (code / base) in
      let l = list 0 code in
      let two = List.length (List.filter (fun r -> r.kind = KTwo && r.published) l) in
      List.iter (fun don ->
        for k = -1 to n + 1 do
          for flags = 0 to 7 do
            let c = { c_done = don; c_posted = wrap (don + two); c_peer = wrap (don + k); recalled = flags land 1 = 1;
                      cut_off = flags land 2 = 2; seen_unplaced = flags land 4 = 4 } in
            if n < 4 || flags = 0 || flags = 2 || flags = 7 then answer b l c
          done
        done;
        ask_exact b l n don) (if n < 4 then [ 0; 0xfffffffe ] else [ 0xfffffffe ]);
      Buffer.add_char b '\n';
      if Buffer.length b > 60000 then (print_string (Buffer.contents b); Buffer.clear b)
    done;
    total := !total * base
  done;
  print_string (Buffer.contents b)
