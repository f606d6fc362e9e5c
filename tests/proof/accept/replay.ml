(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* replay: the simulation's runs (failover_sim --labels), read from stdin, as runs of the proof (docs/proof/Whole.v). What
   a run does not tell of (bytes that reach memory, NOPs) is put in where the rules allow; every step that is taken is
   one of the proof. *)
open Acceptor

type direction = { i : int; mutable kind : int -> kind; mutable fence : int -> bool; mutable over : bool;
                   mutable pending : (int * label) list; mutable flushed : int list }
exception Rejected

let letter = function 'S' -> Two | 'W' -> Wr | 'R' -> Rd | 'A' -> At | _ -> Lc
let dirs = Array.init 6 (fun i -> { i; kind = (fun _ -> Lc); fence = (fun _ -> false); over = true; pending = []; flushed = [] })
let wholes = Array.make 3 start
let labels = ref 0 and schedules = ref 0 and rejected = ref 0 and settles = ref 0 and ordered = ref 0
let exact = ref 0 and passed_over = ref 0
let seed = ref "" and bad = Hashtbl.create 16

(* Direction i is that of end i; ends 2n and 2n + 1 are the two of a connection. *)
let side d = d.i land 1 = 1
let of_side d b = dirs.((d.i land lnot 1) + if b then 1 else 0)
let whole d = wholes.(d.i / 2)
let now d = dir (whole d) (side d)
let may_all d l =
  match wstep (fun b -> (of_side d b).kind) (fun b -> (of_side d b).fence) (whole d) l with
  | Some w -> wholes.(d.i / 2) <- w; true
  | None -> false
let must_all d l = incr labels; if not (may_all d l) then raise Rejected
let may d l = may_all d (Alone (side d, l))
let must d l = must_all d (Alone (side d, l))
let car d e = (now d).car e
let skip_to d n = while (car d (now d).act).ex < n && may d Skip do () done
let place_all d e = while may d (Place e) do () done
(* Receives are told of; all else completes unseen. *)
let comp_rest d e =
  while (let c = car d e in c.cp < c.pl && d.kind c.cp <> Two) && may d (Comp e) do () done
let unsealed d f = for e = (now d).seal to (now d).rep - 1 do f e done
let requests = 1000 (* more than any run has *)
let request_of d message =
  let rec find n left =
    if n = requests then raise Rejected else if d.kind n <> Two then find (n + 1) left
    else if left = 0 then n else find (n + 1) (left - 1) in
  find 0 message
let rank d n = List.length (List.filter (fun m -> d.kind m = Two) (List.init n Fun.id))

(* The health of a NIC is of no matter to a carrier that was never used, and not told of one either; nor to one whose
   completions were all taken out. *)
let health d e l =
  if List.mem e d.flushed then () else if e = (now d).act || (car d e).hi > 0 then ignore (may d l) else d.pending <- d.pending @ [ (e, l) ]
let health_of_new d =
  let now, later = List.partition (fun (e, _) -> e = (now d).act) d.pending in
  d.pending <- later;
  List.iter (fun (_, l) -> ignore (may d l)) now

(* Who was stranded between a dead NIC's flush and its seal says more of what is dead than the proof asks for. *)
let hear d (m : word) =
  if may d (Hear m) then incr labels
  else
    match List.find_opt (fun (e, w) -> e = (now d).sep && w.count = m.count && w.dead <= m.dead && w.cut <= m.cut) (now d).msgs with
    | Some (_, w) -> must d (Hear w)
    | None -> raise Rejected

(* sc_settle() and the function of Settle.v, on the same question. *)
module O = Settle_oracle
let asked = ref 0 and differ = ref 0
let request text i =
  let bits = Char.code text.[2 * i + 1] - 48 in
  { O.kind = (match text.[2 * i] with 'W' -> O.KWrite | 'R' -> O.KRead | 'S' -> O.KTwo | 'A' -> O.KAtomic | _ -> O.KLocal);
    published = bits land 1 = 1; send_fence = bits land 2 = 2; answered = bits land 4 = 4 }
let requests_of list = if list = "-" then [] else List.init (String.length list / 2) (request list)
let said_by a =
  let fates = if a.O.why = O.RMiscount && not a.O.unplaced then [] else a.O.fates in
  Printf.sprintf "%s %s/%d%s"
    (match a.O.why with O.RNone -> "none" | O.RMiscount -> "miscount" | O.RAtomic -> "atomic-unknown" | O.RFencedRead -> "fenced-read")
    (String.concat "" (List.map (function O.Delivered -> "D" | O.ReadAgain -> "A" | O.Resend -> "R") fates))
    a.O.delivered (if a.O.unplaced then "u" else "")
let compare_verdicts said proven =
  incr asked;
  if said <> proven then begin
    incr differ;
    if !differ <= 20 then Printf.printf "seed %s: sc_settle says %s, proven: %s\n" !seed said proven
  end

let counts don posted peer recalled cut unplaced =
  { O.c_done = int_of_string don; c_posted = int_of_string posted; c_peer = int_of_string peer; recalled = recalled = "1";
    cut_off = cut = "1"; seen_unplaced = unplaced = "1" }
let asked_exact = ref 0

let take d words =
  let n = int_of_string in
  match words with
  | [ "post" ] -> must d Post
  | [ "ring"; r; laid_as_nop ] ->
      let c = car d (now d).act in
      if n r < c.hi && d.kind (n r) <> Lc && nop d.kind c (n r) <> (laid_as_nop = "1") then raise Rejected;
      while (car d (now d).act).hi <= n r do must d Ring done
  | [ "answered"; e; r ] when n e = (now d).act ->
      skip_to d (n r + 1);
      while (car d (now d).act).una <= n r do must d Answer done
  | [ "answered"; _; _ ] -> ()
  | [ "ack"; r ] -> while (now d).done0 <= n r do must d Ack done
  | [ "see"; r ] -> while (now d).seen <= n r do must d See done
  | [ "go"; o; e ] -> must_all d (Go (side d, o = "1", n e)); if o = "1" then incr ordered
  | [ "begin"; k; e ] -> must_all d (Turn (Begin (side d, n k, n e)))
  | [ "fence" ] -> must_all d (Turn (Fence (side d)))
  | [ "back" ] -> must_all d (Turn (Back (side d)))
  | [ "strand" ] -> must_all d (Turn (Strand (side d)))
  | [ "lost"; e ] -> must_all d (Turn (Lose (side d, n e)))
  | [ "hfenced" ] -> must_all d (Turn (HearFenced (side d)))
  | [ "asks"; k; e; join ] -> must_all d (Turn (HearAsks (side d, n k, n e, join = "1")))
  | [ "hcancel"; k ] -> must_all d (Turn (HearCancel (side d, n k)))
  | [ "hlost"; e ] -> must_all d (Turn (HearLost (side d, n e)))
  | [ "own" ] -> must_all d (Own (side d))
  | [ "take"; receive; message ] -> must_all d (Take (side d, request_of d (n message), n receive))
  | [ "quiesce" ] -> must d Quiesce
  | "asked" :: don :: posted :: peer :: recalled :: cut :: unplaced :: list :: why :: fates :: [] ->
      compare_verdicts (why ^ " " ^ fates) (said_by (O.sc_settle (requests_of list) (counts don posted peer recalled cut unplaced)))
  | "asked-exact" :: don :: posted :: peer :: recalled :: cut :: unplaced :: list :: why :: fates :: taken :: packets :: doubted :: [] ->
      let l = List.mapi (fun i r -> (r, Char.code packets.[i] - 48)) (requests_of list) in
      let a, in_doubt = O.sc_settle_exact l (counts don posted peer recalled cut unplaced) (Some (n taken)) in
      incr asked_exact;
      compare_verdicts (why ^ " " ^ fates ^ " " ^ doubted) (said_by a ^ (if in_doubt then " 1" else " 0"))
  (* Dir.v settles by the count: an expected PSN said the same, or something else *)
  | [ "exact"; "same" ] -> incr exact
  | [ "exact"; "other" ] ->
      incr exact; incr passed_over;
      d.over <- true; (of_side d (not (side d))).over <- true
  | [ "settle"; c; dead; cut; recalled; e; f ] ->
      hear d { count = n c; dead = n dead; cut = n cut };
      must_all d (Lay (side d, recalled = "1", 0, n e, n f));
      health_of_new d;
      incr settles
  | [ "exec"; e; r ] ->
      if n e = (now d).act then skip_to d (n r);
      let c = car d (n e) in
      if c.ex <> n r then raise Rejected;
      if d.kind (n r) = Rd || d.kind (n r) = At then place_all d (n e);
      must d (Exec (n e))
  | [ "comp"; e; receive; message ] ->
      let before = List.length (now d).log in
      let ok = ref true in
      while List.length (now d).log = before && !ok do
        ok := may d (Comp (n e)) || may d (Place (n e))
      done;
      (match List.nth_opt (now d).log before with
       | Some (r, place) when place = n receive && rank d r = n message -> incr labels
       | _ -> raise Rejected)
  | [ "hang"; e ] -> health d (n e) (RHang (n e)) | [ "lose"; e ] -> health d (n e) (RLose (n e))
  | [ "heal"; e ] -> health d (n e) (RHeal (n e))
  | [ "flushed"; e ] ->
      d.flushed <- n e :: d.flushed;
      if (now d).well (n e) = Sick && n e >= (now d).seal then (place_all d (n e); comp_rest d (n e); must d (RHeal (n e)))
  | [ "rquiesce" ] ->
      unsealed d (fun e -> if (now d).well e = Well then (place_all d e; comp_rest d e));
      must d RQuiesce
  | [ "lifetime" ] -> must d RLifetime
  | [ "seal"; dead; cut ] ->
      if cut = "0" then unsealed d (place_all d);
      must d (Seal (dead = "1", cut = "1"))
  | [ "final"; told ] -> if List.length (now d).log <> n told then raise Rejected; must d Final
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
           wholes.(d.i / 2) <- start; d.over <- false; d.pending <- []; d.flushed <- [];
           d.kind <- (fun n -> if n < String.length k then letter k.[n] else Lc);
           d.fence <- (fun n -> n < String.length f && f.[n] = '1')
       | i :: words ->
           let d = dirs.(int_of_string i) in
           if not d.over then
             (try take d words
              with Rejected ->
                incr rejected; d.over <- true; (of_side d (not (side d))).over <- true;
                let w = List.hd words in
                if Array.length Sys.argv > 1 && !rejected < 20 then
                  for e = 0 to (now d).rep do
                    let c = car d e in
                    Printf.printf "  carrier %d: %s ex %d pl %d cp %d hi %d%s\n" e
                      (match (now d).well e with Well -> "well" | Sick -> "sick" | Lost -> "lost") c.ex c.pl c.cp c.hi
                      (if e = (now d).rep then Printf.sprintf "; act %d seal %d rerr %d gone %d rep %d" (now d).act (now d).seal (now d).rerr (now d).gone (now d).rep else "")
                  done;
                Hashtbl.replace bad w (1 + Option.value ~default:0 (Hashtbl.find_opt bad w));
                if !rejected <= 20 then Printf.printf "seed %s: rejected, %s %s\n" !seed i (String.concat " " words))
       | [] -> ()
     done
   with End_of_file -> ());
  Hashtbl.iter (fun w n -> Printf.printf "%d rejected at %s\n" n w) bad;
  Printf.printf "%d verdicts by an expected PSN; %d settled by one, %d of them otherwise than by the count: passed over from there on\n" !asked_exact !exact !passed_over;
  Printf.printf "%d schedules, %d labels, %d settled, %d left in order: %d of %d verdicts differ, %d rejected\n" !schedules !labels !settles !ordered !differ !asked !rejected;
  exit (if !rejected > 0 then 1 else 0)
