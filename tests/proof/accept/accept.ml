(* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB *)
(* Is this a run of the proof? Reads labels of docs/proof/Dir.v, a line each, and gives them to its step function.

     accept FILE            each "run NAME KINDS FENCES" begins one; says of each whether it is accepted, or which label
                            is the first that is not allowed
     accept --walk N SEED   N random labels; what the theorems say must hold at each step of the compiled function too

   KINDS: a letter a request (S two-sided, W WRITE, R READ, A atomic, L local), again from the start when they end;
   FENCES: 0 or 1 likewise. *)
open Acceptor

let letter = function 'S' -> Two | 'W' -> Wr | 'R' -> Rd | 'A' -> At | 'L' -> Lc | c -> failwith (Printf.sprintf "kind %c" c)
let kinds text n = letter text.[n mod String.length text]
let fences text n = text.[n mod String.length text] = '1'

let label words =
  let n = int_of_string and b = function "0" -> false | "1" -> true | w -> failwith ("neither 0 nor 1: " ^ w) in
  match words with
  | [ "post" ] -> Post | [ "ring" ] -> Ring | [ "answer" ] -> Answer | [ "ack" ] -> Ack | [ "see" ] -> See
  | [ "leave"; e ] -> Leave (n e) | [ "quiesce" ] -> Quiesce
  | [ "hear"; c; d; k ] -> Hear { count = n c; dead = n d; cut = n k }
  | [ "settle"; r; p ] -> Settle (b r, n p)
  | [ "exec"; e ] -> Exec (n e) | [ "skip" ] -> Skip | [ "place"; e ] -> Place (n e) | [ "comp"; e ] -> Comp (n e)
  | [ "hang"; e ] -> RHang (n e) | [ "lose"; e ] -> RLose (n e) | [ "heal"; e ] -> RHeal (n e)
  | [ "rleave"; e ] -> RLeave (n e) | [ "rquiesce" ] -> RQuiesce | [ "lifetime" ] -> RLifetime
  | [ "seal"; d; k ] -> Seal (b d, b k) | [ "final" ] -> Final
  | _ -> failwith ("no label: " ^ String.concat " " words)

(* ---- from a file ------------------------------------------------------------------------------- *)

let judge name count = function
  | None -> Printf.printf "%s: accepted, %d labels\n" name count
  | Some (at, line) -> Printf.printf "%s: rejected at label %d: %s\n" name at line

let accept file =
  let name = ref "" and kind = ref (kinds "W") and fence = ref (fences "0") in
  let state = ref init and count = ref 0 and rejected = ref None in
  let close () = if !name <> "" then judge !name !count !rejected in
  let take line = function
    | "run" :: n :: k :: f :: [] ->
        close ();
        name := n; kind := kinds k; fence := fences f; state := init; count := 0; rejected := None
    | words ->
        incr count;
        if !rejected = None then
          match step !kind !fence !state (label words) with
          | Some s -> state := s
          | None -> rejected := Some (!count, line) in
  let input = open_in file in
  (try
     while true do
       let line = input_line input in
       match List.filter (( <> ) "") (String.split_on_char ' ' line) with
       | [] -> () | w :: _ when w.[0] = '#' -> () | words -> take line words
     done
   with End_of_file -> close ())

(* ---- at random --------------------------------------------------------------------------------- *)

let rec twos kind n = if n = 0 then [] else twos kind (n - 1) @ (if kind (n - 1) = Two then [ n - 1 ] else [])
let check what holds = if not holds then (Printf.printf "BROKEN %s\n" what; exit 1)

let promises kind s =
  let c = s.car s.act in
  check "P1" (s.done0 <= front s);
  check "P2 order" (List.map fst s.log = twos kind c.cp);
  check "P2 receive" (List.mapi (fun i _ -> i) s.log = List.map snd s.log);
  check "P3" (List.for_all (fun (n, _) ->
      List.for_all (fun m -> kind m <> Wr || List.mem m s.wrs) (List.init n Fun.id)) s.log);
  check "P4" (List.length (List.sort_uniq compare s.ats) = List.length s.ats)

let pick s =
  let e = s.act and up = 1 + max s.sep s.rep in
  let any = if Random.int 4 = 0 then Random.int (up + 1) else e in
  let rare n l other = if Random.int n = 0 then l else other in
  match Random.int 44 with
  | 0 | 1 | 2 | 3 -> Post | 4 | 5 | 6 | 7 -> Ring
  | 8 | 9 | 10 | 11 | 12 | 13 -> Exec any | 14 | 15 | 16 -> Place any | 17 | 18 | 19 -> Comp any
  | 20 | 21 -> Answer | 22 | 23 -> Ack | 24 -> See | 25 | 26 -> Skip
  | 27 -> rare 6 (Leave up) (Leave s.rep) | 28 -> rare 6 (RLeave up) (RLeave s.sep)
  | 29 | 30 -> Quiesce | 31 | 32 -> RQuiesce | 33 -> rare 8 (RHang e) RQuiesce | 34 -> rare 8 (RLose e) RQuiesce
  | 35 -> rare 4 (RHeal any) RQuiesce | 36 -> RLifetime
  | 37 -> Seal (Random.bool (), Random.bool ()) | 38 | 39 -> Final
  | 40 | 41 -> (match List.find_opt (fun (x, _) -> x = s.sep) s.msgs with Some (_, m) -> Hear m | None -> Ring)
  | _ -> Settle (Random.bool (), 0)

let walk n seed =
  Random.init seed;
  let tried = ref 0 and taken = ref 0 and settles = ref 0 and doubts = ref 0 and torn = ref 0 and receives = ref 0 in
  while !tried < n do
    let text = String.init 12 (fun _ -> "SSSWWWWRAL".[Random.int 10]) in
    let kind = kinds text and fence = fences (String.init 12 (fun _ -> if Random.int 6 = 0 then '1' else '0')) in
    let s = ref init in
    for _ = 1 to 400 do
      incr tried;
      let l = pick !s in
      match step kind fence !s l with
      | None -> ()
      | Some t ->
          incr taken;
          (match l with
           | Settle _ -> incr settles; if t.doubt && not !s.doubt then incr doubts
           | Seal (_, true) -> let c = !s.car !s.act in if c.cp < c.ex then incr torn
           | _ -> ());
          s := t;
          promises kind t
    done;
    receives := !receives + List.length !s.log
  done;
  Printf.printf "seed %d: %d labels tried, %d taken: %d settled, %d in doubt, %d counted on a NIC that had lost something, %d receives in order\n"
    seed !tried !taken !settles !doubts !torn !receives;
  check "walk: it settles, doubts and loses" (!settles > 0 && !doubts > 0 && !torn > 0 && !receives > 0)

let () =
  match Array.to_list Sys.argv with
  | [ _; "--walk"; n; seed ] -> walk (int_of_string n) (int_of_string seed)
  | [ _; file ] -> accept file
  | _ -> prerr_endline "usage: accept FILE | accept --walk N SEED"; exit 2
