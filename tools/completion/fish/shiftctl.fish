# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Made by make.py from table.json: change these.
# fish completion of shiftctl(1)

function _shiftctl_pid
	sh -c 'shiftctl status 2>/dev/null | sed -n \'s/^\\([0-9][0-9]*\\) .*/\\1/p\''
end

function _shiftctl_device
	sh -c 'ls /sys/class/infiniband 2>/dev/null; shiftctl status 2>/dev/null | sed -n \'s/^  \\([[:alnum:]_.-]*\\)  *\\(open\\|opening\\|closed\\|failed\\)\\(,.*\\|:.*\\|\\)$/\\1/p\''
end

function _shiftctl_check
	sh -c 'shiftctl probe-hw --list 2>/dev/null | sed -n \'s/^\\([a-z][a-z-]*\\)  .*/\\1/p\''
end

complete -c shiftctl -f

# Prints what stands behind the options of a command, and behind "--", to the cursor; "" is a word not yet begun.
function _shiftctl_rest
	set -l words (commandline -opc) (commandline -ct)
	set -l i 3
	while test $i -lt (count $words)
		if test $words[$i] = --
			set i (math $i + 1)
			break
		else if contains -- $words[$i] --backup --check --device --gid-index --interval --kv --libdir --link-down-command --link-up-command --log --memory --output --pid --port --since --wait -d -p -x
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
function _shiftctl_own
	set -l words (commandline -opc)
	test (count $words) -ge 2; and test "$words[2]" = $argv[1]; or return 1
	test (count (_shiftctl_rest)) -le 1
end

# True behind that command, in its n-th argument.
function _shiftctl_is
	set -l words (commandline -opc)
	test (count $words) -ge 2; and test "$words[2]" = $argv[1]; or return 1
	test (count (_shiftctl_rest)) = $argv[2]
end

function _shiftctl_first
	test (count (commandline -opc)) = 1
end

function _shiftctl_run
	set -l words (_shiftctl_rest)
	test (count $words) -ge 1; and not string match -q -- '-*' $words[1]; and complete --do-complete=(string join ' ' -- $words)
end

complete -c shiftctl -n _shiftctl_first -l help -d 'show how it is used'
complete -c shiftctl -n _shiftctl_first -l version -d 'show its version'
complete -c shiftctl -n _shiftctl_first -a run -d 'start a command with SHIFT in place of libibverbs'
complete -c shiftctl -a '(_shiftctl_run)' -n 'contains -- run (commandline -opc)[2]'
complete -c shiftctl -n '_shiftctl_own run' -l kv -x -a 'redis:// rediss:// redis+unix:// lmdb:/' -d 'where peers find each other'
complete -c shiftctl -n '_shiftctl_own run' -l backup -x -a 'auto spread pair' -d 'backup NICs'
complete -c shiftctl -n '_shiftctl_own run' -l log -x -a 'error warn info debug' -d 'level of the log'
complete -c shiftctl -n '_shiftctl_own run' -l lazy -d 'make standbys when they are needed'
complete -c shiftctl -n '_shiftctl_own run' -l require -d 'start only where something is protected'
complete -c shiftctl -n '_shiftctl_own run' -l no-env -d 'set no variables of NCCL, UCX and Open MPI'
complete -c shiftctl -n '_shiftctl_own run' -l ll128 -d 'leave LL128 of NCCL'
complete -c shiftctl -n '_shiftctl_own run' -l libdir -x -a '(__fish_complete_directories)' -d 'directory of SHIFT\'s libibverbs.so.1'
complete -c shiftctl -n '_shiftctl_own run' -l help -d 'show how it is used'
complete -c shiftctl -n _shiftctl_first -a doctor -d 'say what would be protected here'
complete -c shiftctl -n 'contains -- doctor (commandline -opc)[2]' -l kv -x -a 'redis:// rediss:// redis+unix:// lmdb:/' -d 'where peers find each other'
complete -c shiftctl -n 'contains -- doctor (commandline -opc)[2]' -l backup -x -a 'auto spread pair' -d 'backup NICs'
complete -c shiftctl -n 'contains -- doctor (commandline -opc)[2]' -l libdir -x -a '(__fish_complete_directories)' -d 'directory of SHIFT\'s libibverbs.so.1'
complete -c shiftctl -n 'contains -- doctor (commandline -opc)[2]' -l memory -x -d 'what the program registers'
complete -c shiftctl -n 'contains -- doctor (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c shiftctl -n _shiftctl_first -a status -d 'show NICs and queue pairs of running programs'
complete -c shiftctl -n 'contains -- status (commandline -opc)[2]' -l json -d 'for programs'
complete -c shiftctl -n 'contains -- status (commandline -opc)[2]' -l pid -x -a '(_shiftctl_pid)' -d 'only this process'
complete -c shiftctl -n 'contains -- status (commandline -opc)[2]' -l watch -d 'again and again'
complete -c shiftctl -n 'contains -- status (commandline -opc)[2]' -l interval -x -d 'between two looks'
complete -c shiftctl -n 'contains -- status (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c shiftctl -n _shiftctl_first -a events -d 'show what has happened in them'
complete -c shiftctl -n 'contains -- events (commandline -opc)[2]' -l json -d 'for programs'
complete -c shiftctl -n 'contains -- events (commandline -opc)[2]' -s f -l follow -d 'wait for more'
complete -c shiftctl -n 'contains -- events (commandline -opc)[2]' -l since -x -a '90s 15m 2h 1d' -d 'of the last 90s, 15m, 2h or 1d'
complete -c shiftctl -n 'contains -- events (commandline -opc)[2]' -l pid -x -a '(_shiftctl_pid)' -d 'only this process'
complete -c shiftctl -n 'contains -- events (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c shiftctl -n _shiftctl_first -a why -d 'tell the story of a connection, process or NIC'
complete -c shiftctl -n '_shiftctl_is why 1' -a '(_shiftctl_device)'
complete -c shiftctl -n 'contains -- why (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c shiftctl -n _shiftctl_first -a report -d 'make one archive for a bug report'
complete -c shiftctl -n 'contains -- report (commandline -opc)[2]' -l pid -x -a '(_shiftctl_pid)' -d 'only this process'
complete -c shiftctl -n 'contains -- report (commandline -opc)[2]' -l output -r -F -d 'the archive'
complete -c shiftctl -n 'contains -- report (commandline -opc)[2]' -l directory -d 'leave it unpacked'
complete -c shiftctl -n 'contains -- report (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c shiftctl -n _shiftctl_first -a drain -d 'move traffic off a NIC'
complete -c shiftctl -n '_shiftctl_is drain 1' -a '(_shiftctl_device)'
complete -c shiftctl -n 'contains -- drain (commandline -opc)[2]' -l pid -x -a '(_shiftctl_pid)' -d 'only this process'
complete -c shiftctl -n 'contains -- drain (commandline -opc)[2]' -l wait -x -d 'for the last connection'
complete -c shiftctl -n 'contains -- drain (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c shiftctl -n _shiftctl_first -a undrain -d 'let it come back'
complete -c shiftctl -n '_shiftctl_is undrain 1' -a '(_shiftctl_device)'
complete -c shiftctl -n 'contains -- undrain (commandline -opc)[2]' -l pid -x -a '(_shiftctl_pid)' -d 'only this process'
complete -c shiftctl -n 'contains -- undrain (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c shiftctl -n _shiftctl_first -a version -d 'show versions of all that takes part'
complete -c shiftctl -n 'contains -- version (commandline -opc)[2]' -l libdir -x -a '(__fish_complete_directories)' -d 'directory of SHIFT\'s libibverbs.so.1'
complete -c shiftctl -n 'contains -- version (commandline -opc)[2]' -l help -d 'show how it is used'
complete -c shiftctl -n _shiftctl_first -a probe-hw -d 'try what SHIFT assumes about NICs'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -l listen -d 'serve one client'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -s d -l device -x -a '(_shiftctl_device)' -d 'the NIC'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -s x -l gid-index -x -d 'the GID'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -s p -l port -x -d 'of TCP'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -l check -x -a '(_shiftctl_check)' -d 'only this check'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -l list -d 'the checks'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -l json -d 'for programs'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -l link-down-command -x -d 'how to take the link down'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -l link-up-command -x -d 'and up again'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -l by-hand -d 'ask the operator to do both'
complete -c shiftctl -n 'contains -- probe-hw (commandline -opc)[2]' -l help -d 'show how it is used'
