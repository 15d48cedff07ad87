// SPDX-License-Identifier: Apache-2.0 OR MIT

// The plugin's tests: ordinary Go tests, with the helpers that CNI's own plugins use.
//
//	weir run -- go test                            # root is not needed
//	sudo unshare --net --mount go test             # the same on real Linux
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/containernetworking/plugins/pkg/testutils"
	"github.com/vishvananda/netlink"
)

const conf = `{"cniVersion": "1.0.0", "name": "net", "type": "pair", "host": "10.7.0.1/24", "container": "10.7.0.2/24", "mtu": 1400}`

// The tests create links, so they refuse to run in the host's own network.
func TestMain(m *testing.M) {
	links, err := netlink.LinkList()
	if err != nil || len(links) > 1 && links[1].Type() != "sit" && links[1].Type() != "ipip" {
		fmt.Fprintln(os.Stderr, "not an empty network namespace:", len(links), "links", err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// container creates a container's namespace and the arguments that a runtime would pass.
func container(t *testing.T, id string) (ns.NetNS, *skel.CmdArgs) {
	space, err := testutils.NewNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		space.Close()
		if err := testutils.UnmountNS(space); err != nil {
			t.Error(err)
		}
	})
	return space, &skel.CmdArgs{ContainerID: id, Netns: space.Path(), IfName: "eth0", StdinData: []byte(conf)}
}

// added runs ADD and reads its result.
func added(t *testing.T, args *skel.CmdArgs) *current.Result {
	result, _, err := testutils.CmdAddWithArgs(args, func() error { return add(args) })
	if err != nil {
		t.Fatal(err)
	}
	converted, err := current.GetResult(result)
	if err != nil {
		t.Fatal(err)
	}
	return converted
}

func checked(args *skel.CmdArgs) error {
	return testutils.CmdCheckWithArgs(args, func() error { return check(args) })
}

func deleted(args *skel.CmdArgs) error {
	return testutils.CmdDelWithArgs(args, func() error { return del(args) })
}

func TestAddCheckDel(t *testing.T) {
	space, args := container(t, "one")
	result := added(t, args)
	if len(result.Interfaces) != 2 || result.IPs[0].Address.String() != "10.7.0.2/24" {
		t.Fatal(result)
	}
	outside, err := netlink.LinkByName("pone")
	if err != nil {
		t.Fatal(err)
	}
	if outside.Type() != "veth" || outside.Attrs().MTU != 1400 {
		t.Error(outside.Type(), outside.Attrs())
	}
	err = space.Do(func(ns.NetNS) error {
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		if len(routes) != 2 {
			t.Error(routes)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := checked(args); err != nil {
		t.Error(err)
	}
	// A second DEL is not an error: a runtime may repeat it.
	for i := 0; i < 2; i++ {
		if err := deleted(args); err != nil {
			t.Error(err)
		}
	}
	if err := checked(args); err == nil {
		t.Error("CHECK passes after DEL")
	}
}

func TestCheckFindsAWrongAddress(t *testing.T) {
	space, args := container(t, "two")
	added(t, args)
	defer deleted(args)
	err := space.Do(func(ns.NetNS) error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		address, _ := netlink.ParseAddr("10.7.0.3/24")
		return netlink.AddrAdd(link, address)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := checked(args); err == nil || !strings.Contains(err.Error(), "10.7.0.3") {
		t.Error(err)
	}
}

func TestTwice(t *testing.T) {
	_, args := container(t, "three")
	added(t, args)
	defer deleted(args)
	if _, _, err := testutils.CmdAddWithArgs(args, func() error { return add(args) }); err == nil {
		t.Error("a second ADD succeeded")
	}
}

func TestConfiguration(t *testing.T) {
	_, args := container(t, "four")
	var bad map[string]interface{}
	if err := json.Unmarshal([]byte(conf), &bad); err != nil {
		t.Fatal(err)
	}
	bad["container"] = "10.7.0.300/24"
	args.StdinData, _ = json.Marshal(bad)
	if err := add(args); err == nil || !strings.HasPrefix(err.Error(), "container: ") {
		t.Error(err)
	}
	if err := checked(&skel.CmdArgs{ContainerID: "five", Netns: "/proc/self/status", IfName: "eth0", StdinData: []byte(conf)}); err == nil {
		t.Error("an arbitrary file is accepted as a namespace")
	}
}
