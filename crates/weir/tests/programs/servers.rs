// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unmodified servers and their clients talk through a router: nginx, sshd, rsync, Redis, PostgreSQL. A server that does
//! not run as root gets another user id by a user namespace.

use crate::chain::{Time, have, holds, ordinarily};

#[test]
fn curl_and_wget_load_from_nginx() {
    if !have(&[("nginx", "nginx-light"), ("curl", "curl"), ("wget", "wget")]) {
        return;
    }
    let script = r#"mkdir www; head -c 3000000 /dev/urandom > www/file
cat > nginx.conf <<END
user root; daemon off; pid $D/nginx.pid; error_log $D/error.log;
events {}
http { access_log off; client_body_temp_path $D/t1; proxy_temp_path $D/t2; fastcgi_temp_path $D/t3; uwsgi_temp_path $D/t4;
    scgi_temp_path $D/t5; server { listen 8080; listen [::]:8080; root $D/www; } }
END
b nginx -e $D/error.log -c $D/nginx.conf &
ready 8080
for url in http://10.0.1.2:8080/file 'http://[fd01::2]:8080/file'; do
    a curl -s $url | cmp - www/file && echo curl; a wget -qO- $url | cmp - www/file && echo wget
done
a curl -s -o one -o two http://10.0.1.2:8080/file http://10.0.1.2:8080/file; cmp one two && echo kept
a curl -s -r 10-19 http://10.0.1.2:8080/file | wc -c
a curl -sI http://10.0.1.2:8080/none | head -1
finish"#;
    for time in [Time::Virtual, Time::Real] {
        holds(
            &ordinarily(time, script),
            &["curl\nwget\ncurl\nwget\nkept\n10\nHTTP/1.1 404 Not Found"],
        );
    }
}

#[test]
fn ssh_runs_a_command_and_copies_a_file() {
    if !have(&[
        ("ssh", "openssh-client"),
        ("sshd", "openssh-server"),
        ("socat", "socat"),
    ]) {
        return;
    }
    let script = r#"umask 077
ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f key; cp key.pub authorized
printf 'root:x:0:0::/:/bin/sh\nweir:x:1000:1000::%s:/bin/sh\n' $D > passwd; chmod 644 passwd
cat > sshd_config <<END
Port 2222
HostKey $D/host
PidFile none
AuthorizedKeysFile $D/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
Subsystem sftp internal-sftp
END
b bash -c "mount --bind $D/passwd /etc/passwd
    exec unshare --map-user=1000 --map-group=1000 $(command -v sshd) -D -e -f $D/sshd_config" 2> sshd.log &
ready 2222
o="-F none -i key -o BatchMode=yes -o LogLevel=ERROR -o StrictHostKeyChecking=no -o UserKnownHostsFile=$D/known"
a ssh $o -p 2222 weir@10.0.1.2 'id -un; echo ${SSH_CONNECTION%% *} ${SSH_CONNECTION##* }; head -c 300000 /dev/zero | wc -c' || cat sshd.log
head -c 300000 /dev/urandom > big
a scp -q $o -P 2222 big "weir@[fd01::2]:copy"; cmp big copy && echo same
# A forwarded port.
b socat -u OPEN:big TCP-LISTEN:7000 & ready 7000
a ssh $o -p 2222 -W 10.0.1.2:7000 weir@10.0.1.2 < /dev/null | cmp - big && echo forwarded
finish"#;
    holds(
        &ordinarily(Time::Real, script),
        &["weir\n10.0.0.2 2222\n300000\nsame\nforwarded\n"],
    );
}

#[test]
fn rsync_copies_from_a_daemon() {
    if !have(&[("rsync", "rsync")]) {
        return;
    }
    let script = r#"mkdir src; head -c 500000 /dev/urandom > src/big; echo one > src/one
printf 'port = 8730\nuse chroot = no\nuid = 0\ngid = 0\nread only = no\n[files]\npath = %s/src\n' $D > rsyncd.conf
b rsync --daemon --no-detach --config=$D/rsyncd.conf &
ready 8730
a rsync -a rsync://10.0.1.2:8730/files/ copy/; diff -r src copy && echo same
echo three > src/one; echo new > copy/new
a rsync -a --stats 'rsync://[fd01::2]:8730/files/' copy/ | grep 'regular files transferred'
a rsync -a copy/new 'rsync://[fd01::2]:8730/files/'; diff -r src copy && echo same
finish"#;
    for time in [Time::Virtual, Time::Real] {
        assert_eq!(
            ordinarily(time, script),
            "same\nNumber of regular files transferred: 1\nsame\n"
        );
    }
}

#[test]
fn redis_serves_its_benchmark() {
    if !have(&[
        ("redis-server", "redis-server"),
        ("redis-benchmark", "redis-tools"),
    ]) {
        return;
    }
    let script =
        "b redis-server --port 6379 --save '' --protected-mode no --bind 0.0.0.0 ::0 > redis.log &
ready 6379
a redis-cli -h 10.0.1.2 set key value; a redis-cli -h fd01::2 get key
a redis-benchmark -h 10.0.1.2 -c 20 -n 1000 -P 4 -t set,get --csv | cut -d, -f1
a redis-cli -h 10.0.1.2 info clients | grep -c connected_clients:1
finish";
    assert_eq!(
        ordinarily(Time::Real, script),
        "OK\nvalue\n\"test\"\n\"SET\"\n\"GET\"\n1\n"
    );
}

#[test]
fn pgbench_runs_against_postgresql() {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
    let version = versions.and_then(|mut versions| versions.next()?.ok());
    let bin = version.map_or("/usr/lib/postgresql/bin".into(), |version| {
        version.path().join("bin")
    });
    let bin = bin.to_str().unwrap();
    let server = format!("{bin}/postgres");
    if !have(&[(&server, "postgresql"), ("pgbench", "postgresql-client")]) {
        return;
    }
    let script = r#"printf 'weir:x:1000:1000::/tmp:/bin/sh\n' > passwd
# PostgreSQL refuses to run as root.
as() { b sh -c 'mount --bind '$D'/passwd /etc/passwd; exec unshare --map-user=1000 --map-group=1000 "$@"' - "$@"; }
as initdb -D data -U weir -A trust --no-sync --no-instructions > initdb.log
echo 'host all all all trust' >> data/pg_hba.conf
as postgres -D data -p 5433 -h '*' -k $D -F > server.log 2>&1 &
ready 5433
o="-p 5433 -U weir"
a pgbench -h 10.0.1.2 $o -i -q postgres > init.log 2>&1 || cat init.log server.log
a pgbench -h fd01::2 $o -n -c 4 -t 20 postgres | grep processed
a psql -h 10.0.1.2 $o -Atc 'select count(*), inet_server_addr(), inet_client_addr() from pgbench_history' postgres
finish"#;
    let script = format!("PATH={bin}:$PATH\n{script}");
    holds(
        &ordinarily(Time::Real, &script),
        &[
            "number of transactions actually processed: 80/80",
            "80|10.0.1.2|10.0.0.2",
        ],
    );
}
