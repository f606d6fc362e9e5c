#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A small training by two processes that writes a checkpoint on SIGUSR1, and starts again elsewhere if it is degraded.

The trainer (rank 0) has the parameters. In each step the trainer gets the gradients of half of the batch from
the helper (rank 1), by PyTorch RPC over RDMA, computes the other half, and updates the parameters. README.md
tells the part of SHIFT: when a NIC fails, the traffic moves and SHIFT_ON_EVENT sends the signal.

The folder that the variable DEGRADED names has a mark of each process that is degraded. If one is for longer than
--restart-after minutes, the trainer ends behind its next checkpoint, with the exit status 75.

  train.py --rank 1 &  train.py --rank 0 --checkpoint FILE [--every STEPS] [--restart-after MINUTES] [--steps N]
"""
import argparse
import datetime
import hashlib
import os
import signal
import sys

import torch
import torch.distributed.rpc as rpc

INPUTS, HIDDEN, BATCH, RATE, MOMENTUM = 48, 256, 64, 0.05, 0.9
AGAIN = os.EX_TEMPFAIL      # 75: to be started again, from the checkpoint, on hosts that are whole

wanted = False


def ask(_number, _frame):
    global wanted
    wanted = True


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.Tanh(),
                               torch.nn.Linear(HIDDEN, 1))


def batch(step, rank):
    random = torch.Generator().manual_seed(2 * step + rank)
    x = torch.randn(BATCH // 2, INPUTS, generator=random)
    return x, torch.tanh(x[:, :1] - x[:, 1:2]) + 0.5 * x[:, 2:3]


def gradients(net, step, rank):
    x, y = batch(step, rank)
    net.zero_grad()
    torch.nn.functional.mse_loss(net(x), y).backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()])


def flat(net):
    return torch.nn.utils.parameters_to_vector(net.parameters()).detach()


def helper_gradients(parameters, step):
    """On the helper: it keeps nothing from one step to the next."""
    net = model()
    torch.nn.utils.vector_to_parameters(parameters, net.parameters())
    return gradients(net, step, 1)


def one_step(net, optimizer, step):
    theirs = rpc.rpc_async("rank1", helper_gradients, args=(flat(net), step))
    total = gradients(net, step, 0) + theirs.wait()
    at = 0
    for p in net.parameters():
        p.grad = (total[at:at + p.numel()] / 2).view_as(p)
        at += p.numel()
    optimizer.step()


def save(path, net, optimizer, step):
    """Whole or not at all, whatever ends the process meanwhile."""
    new = path + ".new"
    with open(new, "wb") as f:
        torch.save({"step": step, "net": net.state_dict(), "optimizer": optimizer.state_dict()}, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(new, path)
    print(f"checkpoint: {step} steps done, in {path}", flush=True)


def resume(path, net, optimizer):
    if not os.path.exists(path):
        return 0
    state = torch.load(path)
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"resumed behind {state['step']} steps", flush=True)
    return state["step"]


def marks():
    """Of processes that are degraded, as on-switch.sh leaves them."""
    folder = os.environ.get("DEGRADED")
    return [e.path for e in os.scandir(folder) if not e.name.startswith(".")] if folder and os.path.isdir(folder) else []


def degraded_minutes():
    """For how long one of the job's processes has been degraded: the one that is so for longest."""
    longest = 0
    for mark in marks():
        try:
            with open(mark, encoding="ascii") as f:
                since = datetime.datetime.fromisoformat(f.read().split()[0].replace("Z", "+00:00"))
        except FileNotFoundError:
            continue    # it is whole again
        longest = max(longest, (datetime.datetime.now(datetime.timezone.utc) - since).total_seconds() / 60)
    return longest


def to_be_restarted(args):
    """Behind a checkpoint: nothing is lost then but the time of a start."""
    minutes = degraded_minutes() if args.restart_after else 0
    if minutes <= args.restart_after:
        return False
    print(f"restart: degraded for {minutes:.2f} minutes", flush=True)
    return True


def train(args):
    """The exit status."""
    global wanted
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    step = resume(args.checkpoint, net, optimizer)
    while step < args.steps:
        one_step(net, optimizer, step)
        step += 1
        if step % 100 == 0:
            print(f"{step} steps", flush=True)
        if wanted or (args.every and step % args.every == 0):
            wanted = False
            save(args.checkpoint, net, optimizer, step)
            if to_be_restarted(args):
                return AGAIN
    digest = hashlib.sha256(flat(net).numpy().tobytes()).hexdigest()
    print(f"done: {step} steps, parameters {digest}", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--port", default="29500")
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--every", type=int, default=0, metavar="STEPS",
                        help="a checkpoint each so many steps; 0: only when asked for one")
    parser.add_argument("--restart-after", type=float, default=0, metavar="MINUTES",
                        help="degraded for longer: end behind the next checkpoint, to be started again; 0: never")
    args = parser.parse_args()
    # Before SHIFT can send it. The helper has nothing to save.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN if args.rank else ask)
    for mark in [] if args.rank else marks():
        os.unlink(mark)     # of the processes before these
    torch.set_num_threads(1)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", args.port)
    options = rpc.TensorPipeRpcBackendOptions(_transports=["ibv"], _channels=["basic"])
    rpc.init_rpc(f"rank{args.rank}", rank=args.rank, world_size=2, rpc_backend_options=options)
    status = 0 if args.rank else train(args)
    rpc.shutdown()
    return status


if __name__ == "__main__":
    sys.exit(main())
