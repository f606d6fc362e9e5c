(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* replay: the simulation's runs (failover_sim --labels), read from stdin, as runs of the proof. What a run does not tell
   of (bytes that reach memory, NOPs) is put in where the rules allow; every step that is taken is one of the proof. *)
open Acceptor

type direction = { mutable s : st; mutable kind : int -> kind; mutable fence : int -> bool; mutable over : bool;
                   mutable pending : (int * label) list; mutable flushed : int list }
exception Rejected

let letter = function 'S' -> Two | 'W' -> Wr | 'R' -> Rd | 'A' -> At | _ -> Lc
let dirs = Array.init 6 (fun _ -> { s = init; kind = (fun _ -> Lc); fence = (fun _ -> false); over = true; pending = []; flushed = [] })
let labels = ref 0 and schedules = ref 0 and rejected = ref 0 and settles = ref 0
let seed = ref "" and bad = Hashtbl.create 16

let may d l = match step d.kind d.fence d.s l with Some t -> d.s <- t; true | None -> false
let must d l = incr labels; if not (may d l) then raise Rejected
let car d e = d.s.car e
let skip_to d n = while (car d d.s.act).ex < n && may d Skip do () done
let place_all d e = while may d (Place e) do () done
(* Receives are told of; all else completes unseen. *)
let comp_rest d e =
  while (let c = car d e in c.cp < c.pl && d.kind c.cp <> Two) && may d (Comp e) do () done
let unsealed d f = for e = d.s.seal to d.s.rep - 1 do f e done
let rank d n = List.length (List.filter (fun m -> d.kind m = Two) (List.init n Fun.id))

(* The health of a NIC is of no matter to a carrier that was never used, and not told of one either; nor to one whose
   completions were all taken out. *)
let health d e l =
  if List.mem e d.flushed then () else if e = d.s.act || (car d e).hi > 0 then ignore (may d l) else d.pending <- d.pending @ [ (e, l) ]
let health_of_new d =
  let now, later = List.partition (fun (e, _) -> e = d.s.act) d.pending in
  d.pending <- later;
  List.iter (fun (_, l) -> ignore (may d l)) now

(* Who was stranded between a dead NIC's flush and its seal says more of what is dead than the proof asks for. *)
let hear d m =
  if may d (Hear m) then incr labels
  else
    match List.find_opt (fun (e, w) -> e = d.s.sep && w.count = m.count && w.dead <= m.dead && w.cut <= m.cut) d.s.msgs with
    | Some (_, w) -> must d (Hear w)
    | None -> raise Rejected

let take d words =
  let n = int_of_string in
  match words with
  | [ "post" ] -> must d Post
  | [ "ring"; r; laid_as_nop ] ->
      let c = car d d.s.act in
      if n r < c.hi && d.kind (n r) <> Lc && nop d.kind c (n r) <> (laid_as_nop = "1") then raise Rejected;
      while (car d d.s.act).hi <= n r do must d Ring done
  | [ "answered"; e; r ] when n e = d.s.act ->
      skip_to d (n r + 1);
      while (car d d.s.act).una <= n r do must d Answer done
  | [ "answered"; _; _ ] -> ()
  | [ "ack"; r ] -> while d.s.done0 <= n r do must d Ack done
  | [ "see"; r ] -> while d.s.seen <= n r do must d See done
  | [ "leave"; e ] -> must d (Leave (n e)) | [ "rleave"; e ] -> must d (RLeave (n e))
  | [ "quiesce" ] -> must d Quiesce
  | [ "settle"; c; dead; cut; recalled; _ ] ->
      hear d { count = n c; dead = n dead; cut = n cut };
      must d (Settle (recalled = "1", 0));
      health_of_new d;
      incr settles
  | [ "exec"; e; r ] ->
      if n e = d.s.act then skip_to d (n r);
      let c = car d (n e) in
      if c.ex <> n r then raise Rejected;
      if d.kind (n r) = Rd || d.kind (n r) = At then place_all d (n e);
      must d (Exec (n e))
  | [ "comp"; e; receive; message ] ->
      let before = List.length d.s.log in
      let ok = ref true in
      while List.length d.s.log = before && !ok do
        ok := may d (Comp (n e)) || may d (Place (n e))
      done;
      (match List.nth_opt d.s.log before with
       | Some (r, place) when place = n receive && rank d r = n message -> incr labels
       | _ -> raise Rejected)
  | [ "hang"; e ] -> health d (n e) (RHang (n e)) | [ "lose"; e ] -> health d (n e) (RLose (n e))
  | [ "heal"; e ] -> health d (n e) (RHeal (n e))
  | [ "flushed"; e ] ->
      d.flushed <- n e :: d.flushed;
      if d.s.well (n e) = Sick && n e >= d.s.seal then (place_all d (n e); comp_rest d (n e); must d (RHeal (n e)))
  | [ "rquiesce" ] ->
      unsealed d (fun e -> if d.s.well e = Well then (place_all d e; comp_rest d e));
      must d RQuiesce
  | [ "lifetime" ] -> must d RLifetime
  | [ "seal"; dead; cut ] ->
      if cut = "0" then unsealed d (place_all d);
      must d (Seal (dead = "1", cut = "1"))
  | [ "final" ] -> must d Final
  | [ "early" ] -> raise Rejected
  | [ "end" ] -> d.over <- true
  | _ -> failwith ("no label: " ^ String.concat " " words)

let () =
  (try
     while true do
       match String.split_on_char ' ' (input_line stdin) with
       | [ "schedule"; n ] -> seed := n; incr schedules; Array.iter (fun d -> d.over <- true) dirs
       | [ i; "run"; k; f ] ->
           let d = dirs.(int_of_string i) in
           d.s <- init; d.over <- false; d.pending <- []; d.flushed <- [];
           d.kind <- (fun n -> if n < String.length k then letter k.[n] else Lc);
           d.fence <- (fun n -> n < String.length f && f.[n] = '1')
       | i :: words ->
           let d = dirs.(int_of_string i) in
           if not d.over then
             (try take d words
              with Rejected ->
                incr rejected; d.over <- true;
                let w = List.hd words in
                if Array.length Sys.argv > 1 && !rejected < 20 then
                  for e = 0 to d.s.rep do
                    let c = car d e in
                    Printf.printf "  carrier %d: %s ex %d pl %d cp %d hi %d%s\n" e
                      (match d.s.well e with Well -> "well" | Sick -> "sick" | Lost -> "lost") c.ex c.pl c.cp c.hi
                      (if e = d.s.rep then Printf.sprintf "; act %d seal %d rerr %d gone %d rep %d" d.s.act d.s.seal d.s.rerr d.s.gone d.s.rep else "")
                  done;
                Hashtbl.replace bad w (1 + Option.value ~default:0 (Hashtbl.find_opt bad w));
                if !rejected <= 20 then Printf.printf "seed %s: rejected, %s %s\n" !seed i (String.concat " " words))
       | [] -> ()
     done
   with End_of_file -> ());
  Hashtbl.iter (fun w n -> Printf.printf "%d rejected at %s\n" n w) bad;
  Printf.printf "%d schedules, %d labels, %d settled: %d rejected\n" !schedules !labels !settles !rejected;
  exit (if !rejected > 0 then 1 else 0)
