# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Made by make.py from table.json: change these.
# fish completion of simnicctl(1)

function _simnicctl_host
	sh -c 'simnicctl status 2>/dev/null | sed -n \'s,^\\(h[0-9]*\\)/.*,\\1,p\' | sort -u'
end

function _simnicctl_target
	sh -c 'echo all; simnicctl status 2>/dev/null | sed -n \'s,^\\(h[0-9]*/[^ ]*\\|rail[0-9]*\\) .*,\\1,p\''
end

complete -c simnicctl -f

# Prints what stands behind the options of a command, and behind "--", to the cursor; "" is a word not yet begun.
function _simnicctl_rest
	set -l words (commandline -opc) (commandline -ct)
	set -l i 3
	while test $i -lt (count $words)
		if test $words[$i] = --
			set i (math $i + 1)
			break
		else if contains -- $words[$i] --after --at-message --burst --card-ports --cmd-cost-us --delay --duplicate --for --gpu-switch --host --hosts --link-layer --loss --netdev --nics --numa-nodes --queue --rate --reorder --seed
			set i (math $i + 2)
		else if string match -q -- '-*' $words[$i]
			set i (math $i + 1)
		else
			break
		end
	end
	test $i -le (count $words); and printf '%s\n' $words[$i..-1]
end

# True behind that command, and with less than two words of its arguments.
function _simnicctl_own
	set -l words (commandline -opc)
	test (count $words) -ge 2; and test "$words[2]" = $argv[1]; or return 1
	test (count (_simnicctl_rest)) -le 1
end

# True behind that command, in its n-th argument.
function _simnicctl_is
	set -l words (commandline -opc)
	test (count $words) -ge 2; and test "$words[2]" = $argv[1]; or return 1
	test (count (_simnicctl_rest)) = $argv[2]
end

function _simnicctl_first
	test (count (commandline -opc)) = 1
end

function _simnicctl_run
	set -l words (_simnicctl_rest)
	test (count $words) -ge 1; and not string match -q -- '-*' $words[1]; and complete --do-complete=(string join ' ' -- $words)
end

complete -c simnicctl -n _simnicctl_first -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -l version -d 'show its version'
complete -c simnicctl -n _simnicctl_first -a create -d 'make a fabric'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l hosts -x -d 'number of hosts'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l nics -x -d 'NICs of a host'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l link-layer -x -a 'eth ib' -d 'Ethernet or InfiniBand'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l cmd-cost-us -x -d 'time that a command takes'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l seed -x -d 'of all that is random'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l card-ports -x -d 'ports of a card'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l numa-nodes -x -d 'NUMA nodes of a host'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l netdev -x -d 'network interface of a NIC'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l joined -d 'rails reach each other'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l direct -d 'two hosts by cables, without switches'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l gpu-switch -x -d 'PCIe switches with GPUs'
complete -c simnicctl -n 'contains -- create (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a destroy -d 'end the fabric'
complete -c simnicctl -n 'contains -- destroy (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a run -d 'run a program on a host'
complete -c simnicctl -a '(_simnicctl_run)' -n 'contains -- run (commandline -opc)[2]'
complete -c simnicctl -n '_simnicctl_own run' -l host -x -a '(_simnicctl_host)' -d 'the host'
complete -c simnicctl -n '_simnicctl_own run' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a real -d 'the host has a real device, too'
complete -c simnicctl -n 'contains -- real (commandline -opc)[2]' -l host -x -a '(_simnicctl_host)' -d 'the host'
complete -c simnicctl -n 'contains -- real (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a fault -d 'break something'
complete -c simnicctl -n '_simnicctl_is fault 1' -a 'port-down port-up cable-down cable-up switch-down switch-up lose-tx lose-rx lose-acks lose-loopback hold-requests hold-acks pause cut-message nic-blind nic-hang nic-internal-error nic-zombie nic-unplug nic-pci-error nic-disassociate nic-removed nic-reprobe heal'
complete -c simnicctl -n '_simnicctl_is fault 2' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- fault (commandline -opc)[2]' -l after -x -d 'later'
complete -c simnicctl -n 'contains -- fault (commandline -opc)[2]' -l at-message -x -d 'when the NIC has sent N more messages'
complete -c simnicctl -n 'contains -- fault (commandline -opc)[2]' -l for -x -d 'it ends after that time'
complete -c simnicctl -n 'contains -- fault (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a script -d 'faults of a file, started together'
complete -c simnicctl -n '_simnicctl_is script 1' -F
complete -c simnicctl -n 'contains -- script (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a heal -d 'all well again'
complete -c simnicctl -n '_simnicctl_is heal 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- heal (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a release -d 'let the packets go that a NIC holds'
complete -c simnicctl -n '_simnicctl_is release 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- release (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a reprobe -d 'well again as another device'
complete -c simnicctl -n '_simnicctl_is reprobe 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- reprobe (commandline -opc)[2]' -l after -x -d 'later'
complete -c simnicctl -n 'contains -- reprobe (commandline -opc)[2]' -l at-message -x -d 'when the NIC has sent N more messages'
complete -c simnicctl -n 'contains -- reprobe (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a netdev -d 'network interface of a NIC'
complete -c simnicctl -n '_simnicctl_is netdev 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- netdev (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a gids -d 'which RoCE GIDs a port has'
complete -c simnicctl -n '_simnicctl_is gids 1' -a '(_simnicctl_target)'
complete -c simnicctl -n '_simnicctl_is gids 2' -a 'v1 v2 both'
complete -c simnicctl -n '_simnicctl_is gids 3' -a 'ipv4 ipv6'
complete -c simnicctl -n 'contains -- gids (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a move-gid -d 'another index for a GID'
complete -c simnicctl -n '_simnicctl_is move-gid 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- move-gid (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a vlan -d 'a GID on a VLAN'
complete -c simnicctl -n '_simnicctl_is vlan 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- vlan (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a pkeys -d 'partition table'
complete -c simnicctl -n '_simnicctl_is pkeys 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- pkeys (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a cost -d 'time that every command takes'
complete -c simnicctl -n '_simnicctl_is cost 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- cost (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a timeout -d 'after which a command that hangs fails'
complete -c simnicctl -n '_simnicctl_is timeout 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- timeout (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a slow -d 'more time for some commands'
complete -c simnicctl -n '_simnicctl_is slow 1' -a '(_simnicctl_target)'
complete -c simnicctl -n '_simnicctl_is slow 2' -a 'register region route'
complete -c simnicctl -n 'contains -- slow (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a retry -d 'stretch retry timers'
complete -c simnicctl -n '_simnicctl_is retry 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- retry (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a posted-writes -d 'payload is visible later'
complete -c simnicctl -n '_simnicctl_is posted-writes 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- posted-writes (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a torn-lines -d 'half a line may be read'
complete -c simnicctl -n '_simnicctl_is torn-lines 1' -a '(_simnicctl_target)'
complete -c simnicctl -n '_simnicctl_is torn-lines 2' -a 'on off'
complete -c simnicctl -n 'contains -- torn-lines (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a clock -d 'clock of a NIC'
complete -c simnicctl -n '_simnicctl_is clock 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- clock (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a atomic-scope -d 'to what atomics are atomic'
complete -c simnicctl -n '_simnicctl_is atomic-scope 1' -a '(_simnicctl_target)'
complete -c simnicctl -n '_simnicctl_is atomic-scope 2' -a 'hca glob'
complete -c simnicctl -n 'contains -- atomic-scope (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a link -d 'its cable, or a direction of it'
complete -c simnicctl -n '_simnicctl_is link 1' -a '(_simnicctl_target)'
complete -c simnicctl -n '_simnicctl_is link 2' -a 'out in off'
complete -c simnicctl -n 'contains -- link (commandline -opc)[2]' -l rate -x -d 'such as 1G'
complete -c simnicctl -n 'contains -- link (commandline -opc)[2]' -l delay -x -d 'such as 12.5ms'
complete -c simnicctl -n 'contains -- link (commandline -opc)[2]' -l loss -x -d 'probability'
complete -c simnicctl -n 'contains -- link (commandline -opc)[2]' -l burst -x -d 'packets lost together'
complete -c simnicctl -n 'contains -- link (commandline -opc)[2]' -l reorder -x -d 'probability and time'
complete -c simnicctl -n 'contains -- link (commandline -opc)[2]' -l duplicate -x -d 'probability'
complete -c simnicctl -n 'contains -- link (commandline -opc)[2]' -l queue -x -d 'such as 4M'
complete -c simnicctl -n 'contains -- link (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a speed -d 'lanes and their speed'
complete -c simnicctl -n '_simnicctl_is speed 1' -a '(_simnicctl_target)'
complete -c simnicctl -n '_simnicctl_is speed 2' -a 'port pci whole'
complete -c simnicctl -n 'contains -- speed (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a limit -d 'what a process may have of a NIC'
complete -c simnicctl -n '_simnicctl_is limit 1' -a '(_simnicctl_target)'
complete -c simnicctl -n '_simnicctl_is limit 2' -a 'pds mrs cqs qps srqs qp-wr sge cqe cq-resize'
complete -c simnicctl -n 'contains -- limit (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a mtu -d 'what a port can'
complete -c simnicctl -n '_simnicctl_is mtu 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- mtu (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a removal -d 'how the kernel takes a NIC away'
complete -c simnicctl -n '_simnicctl_is removal 1' -a '(_simnicctl_target)'
complete -c simnicctl -n '_simnicctl_is removal 3' -a 'backwards fatal-first'
complete -c simnicctl -n 'contains -- removal (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a swap -d 'two get each other\'s names'
complete -c simnicctl -n '_simnicctl_is swap 1' -a '(_simnicctl_target)'
complete -c simnicctl -n '_simnicctl_is swap 2' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- swap (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a quirk -d 'a NIC differs from what is documented'
complete -c simnicctl -n '_simnicctl_is quirk 1' -a '(_simnicctl_target)'
complete -c simnicctl -n 'contains -- quirk (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c simnicctl -n _simnicctl_first -a status -d 'show the fabric'
complete -c simnicctl -n 'contains -- status (commandline -opc)[2]' -l json -d 'for programs'
complete -c simnicctl -n 'contains -- status (commandline -opc)[2]' -l help -d 'show how it is used'
