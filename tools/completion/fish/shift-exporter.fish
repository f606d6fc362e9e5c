# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Made by make.py from table.json: change these.
# fish completion of shift-exporter(1)

complete -c shift-exporter -f
complete -c shift-exporter -l help -d 'show how it is used'
complete -c shift-exporter -l version -d 'show its version'
complete -c shift-exporter -l listen -x -a '127.0.0.1:10471' -d 'where it serves'
complete -c shift-exporter -l run-dir -x -a '(__fish_complete_directories)' -d 'only programs with sockets there'
complete -c shift-exporter -l timeout -x -d 'of a scrape'
