# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How long a reliable Write takes over a long link that loses packets: exact distributions (retransmit, erasure,
hybrid), the same things played packet by packet (packets), and rings of Writes (ring).

Times are seconds, sizes bytes, rates bits a second. A Write begins with its first injection and ends when its last
acknowledgement is back; T below is the injection of one chunk. Only the standard library is used."""
from .link import Link, Scheme, chunks_of, ideal, predict

__all__ = ["Link", "Scheme", "chunks_of", "ideal", "predict"]
