#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# on-linux.sh COMMAND [ARGUMENT...]: runs a command as root on a separate Linux 6.1 kernel.
#
# The kernel is Debian's user-mode-linux: an ordinary process that needs no root, no KVM and no
# image, has every module of a distribution, and sees the host's files with the rights of the
# caller. It shows what real Linux does with a script written for Weir if the host's kernel lacks
# a kind (dummy, vlan, flower) or if the caller is not root.
#
# The command has no standard input; its output appears when it has finished. The exit status is
# the command's, or 125 if the kernel did not run it.
# Needs: user-mode-linux, kmod, iproute2 (Debian: apt install user-mode-linux kmod iproute2).
# MEMORY: the kernel's memory, default 512M. TIMEOUT: in seconds, default 300.
# LINUX: another user-mode kernel, such as one built by make-linux.sh: Debian's lacks ets, fq_pie, gate,
# netdevsim and multicast routing of IPv6.
set -u

[ $# -gt 0 ] || { echo "usage: on-linux.sh COMMAND [ARGUMENT...]" >&2; exit 125; }
kernel=${LINUX:-$(command -v linux.uml)} || { echo "on-linux.sh: apt install user-mode-linux" >&2; exit 125; }
box=$(mktemp -d) || exit 125
trap 'rm -rf "$box"' EXIT

{
    printf 'cd %q\n' "$PWD"
    printf 'exec </dev/null >%q 2>%q\n' "$box/stdout" "$box/stderr"
    printf '%q ' "$@"
} >"$box/command"

cat >"$box/init" <<EOF
#!/bin/bash
export PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t tmpfs tmpfs /run
mkdir -p /run/modules/lib
ln -s /usr/lib/uml/modules /run/modules/lib/modules
printf '#!/bin/sh\nexec /sbin/modprobe -d /run/modules "\$@"\n' >/run/modprobe
chmod +x /run/modprobe
echo /run/modprobe >/proc/sys/kernel/modprobe
/run/modprobe -q ipv6
ip link set lo up
/bin/bash $box/command
echo \$? >$box/status
sync
poweroff -f
EOF
chmod +x "$box/init"

# hostfs exposes the host's whole file system. The console (con0), to which init prints, is discarded.
timeout "${TIMEOUT:-300}" "$kernel" mem="${MEMORY:-512M}" rootfstype=hostfs rootflags=/ rw \
    init="$box/init" dummy.numdummies=0 ifb.numifbs=0 con=null con0=null,null quiet </dev/null >"$box/console" 2>&1

cat "$box/stdout" 2>/dev/null
cat "$box/stderr" >&2 2>/dev/null
[ -s "$box/status" ] || {
    echo "on-linux.sh: the kernel did not finish the command; it said:" >&2
    tail -n 5 "$box/console" >&2
    exit 125
}
exit "$(cat "$box/status")"
