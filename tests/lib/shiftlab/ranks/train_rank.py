#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Data-parallel training by two ranks: a perceptron of two layers learns a function of its inputs.
Each step takes a batch of its own on each rank; gradients and losses are summed by Allreduce."""
import sys

import numpy as np
from mpi4py import MPI

from rounds import Rounds, die_with_parent, digest, parser

INPUTS, HIDDEN, BATCH, RATE = 48, 256, 64, 0.05

comm = MPI.COMM_WORLD


class Model:
    """Its parameters lie in one vector, and so do their gradients."""

    def __init__(self):
        random = np.random.default_rng(1)
        self.all = np.concatenate([
            random.normal(0, INPUTS ** -0.5, INPUTS * HIDDEN), np.zeros(HIDDEN),
            random.normal(0, HIDDEN ** -0.5, HIDDEN), np.zeros(1)])
        self.grad = np.zeros_like(self.all)
        self.w1, self.b1, self.w2, self.b2 = self.parts(self.all)

    @staticmethod
    def parts(v):
        a, b, c, d = np.split(v, np.cumsum([INPUTS * HIDDEN, HIDDEN, HIDDEN]))
        return a.reshape(INPUTS, HIDDEN), b, c, d

    def backward(self, x, y):
        """The loss of a batch; its gradients are left in grad."""
        g1, gb1, g2, gb2 = self.parts(self.grad)
        h = np.tanh(x @ self.w1 + self.b1)
        error = h @ self.w2 + self.b2 - y
        slope = 2 * error / len(y)
        dh = slope[:, None] * self.w2 * (1 - h * h)
        g1[:], gb1[:], g2[:], gb2[:] = x.T @ dh, dh.sum(0), slope @ h, slope.sum()
        return float(np.mean(error * error))


def batch(step):
    x = np.random.default_rng((comm.rank, step)).normal(size=(BATCH, INPUTS))
    return x, np.tanh(x[:, 0] - x[:, 1]) + 0.5 * x[:, 2]


def main():
    p = parser()
    args = p.parse_args()
    die_with_parent()
    model, rounds, last = Model(), Rounds(args), False
    while not last:
        last = comm.bcast(rounds.last() if comm.rank == 0 else None)
        loss = model.backward(*batch(rounds.n))
        comm.Allreduce(MPI.IN_PLACE, model.grad)
        loss = comm.allreduce(loss) / comm.size
        model.all -= RATE / comm.size * model.grad
        rounds.note(f"{loss.hex()} {digest(model.all)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
