// SPDX-License-Identifier: Apache-2.0 OR MIT

// A client like a container runtime: Go, github.com/vishvananda/netlink, many goroutines on many
// threads, threads in network namespaces of their own, a subscription, errors by errno. Prints what
// it did. The exit status is 1 if anything differs from Linux.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

func must(err error, what string) {
	if err != nil {
		fmt.Println(what+":", err)
		os.Exit(1)
	}
}

func dummy(name string) *netlink.Dummy {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	return &netlink.Dummy{LinkAttrs: attrs}
}

// Runs on a thread that enters a new named namespace, works there and returns.
func inNamespace(name string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		return err
	}
	defer home.Close()
	own, err := netns.NewNamed(name)
	if err != nil {
		return err
	}
	defer own.Close()
	for i := 0; i < 10; i++ {
		if err := netlink.LinkAdd(dummy(fmt.Sprintf("d%d", i))); err != nil {
			return err
		}
	}
	link, err := netlink.LinkByName("d3")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	address, _ := netlink.ParseAddr("10.0.0.1/24")
	if err := netlink.AddrAdd(link, address); err != nil {
		return err
	}
	_, to, _ := net.ParseCIDR("10.9.0.0/16")
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, Gw: net.ParseIP("10.0.0.2")}
	if err := netlink.RouteAdd(route); err != nil {
		return err
	}
	routes, err := netlink.RouteList(link, netlink.FAMILY_V4)
	if err != nil || len(routes) != 2 {
		return fmt.Errorf("%d routes, %v", len(routes), err)
	}
	if err := netns.Set(home); err != nil {
		return err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		if link.Attrs().Name == "d3" {
			return errors.New("the link of the namespace is at home")
		}
	}
	// The same namespace from outside, through a handle.
	handle, err := netlink.NewHandleAt(own)
	if err != nil {
		return err
	}
	defer handle.Close()
	links, err = handle.LinkList()
	if err != nil || len(links) != 11 {
		return fmt.Errorf("%d links through the handle, %v", len(links), err)
	}
	return nil
}

func main() {
	updates := make(chan netlink.LinkUpdate, 64)
	done := make(chan struct{})
	must(netlink.LinkSubscribe(updates, done), "subscribe")

	var all sync.WaitGroup
	failed := make(chan error, 64)
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func(name string) {
			defer all.Done()
			if err := inNamespace(name); err != nil {
				failed <- fmt.Errorf("%s: %w", name, err)
			}
		}(fmt.Sprintf("go%d", i))
	}
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			for n := 0; n < 25; n++ {
				link := dummy(fmt.Sprintf("t%d-%d", i, n))
				if err := netlink.LinkAdd(link); err != nil {
					failed <- err
					return
				}
				if err := netlink.LinkDel(link); err != nil {
					failed <- err
					return
				}
			}
		}(i)
	}
	all.Wait()
	select {
	case err := <-failed:
		must(err, "goroutine")
	default:
	}
	fmt.Println("four namespaces on threads of their own, 200 links made and deleted by 8 goroutines")

	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "peer0"}
	veth.Name = "veth0"
	must(netlink.LinkAdd(veth), "veth")
	if err := netlink.LinkAdd(veth); !errors.Is(err, syscall.EEXIST) {
		must(fmt.Errorf("%v", err), "veth twice")
	}
	peer, err := netlink.LinkByName("peer0")
	must(err, "peer0")
	there, err := netns.GetFromName("go1")
	must(err, "go1")
	must(netlink.LinkSetNsFd(peer, int(there)), "move")
	if _, err := netlink.LinkByName("peer0"); err == nil {
		must(errors.New("it is still here"), "peer0")
	}
	var none netlink.LinkNotFoundError
	if _, err := netlink.LinkByName("nosuch"); !errors.As(err, &none) {
		must(fmt.Errorf("%v", err), "nosuch")
	}
	fmt.Println("a veth pair, its peer moved")

	link, err := netlink.LinkByName("veth0")
	must(err, "veth0")
	index := link.Attrs().Index
	must(netlink.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}), "clsact")
	must(netlink.FilterAdd(&netlink.Flower{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Priority: 1, Protocol: syscall.ETH_P_IP},
		EthType:     syscall.ETH_P_IP,
		DestIP:      net.ParseIP("10.1.2.3"),
		Actions:     []netlink.Action{&netlink.GenericAction{ActionAttrs: netlink.ActionAttrs{Action: netlink.TC_ACT_SHOT}}},
	}), "flower")
	filters, err := netlink.FilterList(link, netlink.HANDLE_MIN_INGRESS)
	if err != nil || len(filters) != 1 {
		must(fmt.Errorf("%d filters, %v", len(filters), err), "filters")
	}
	fmt.Println("clsact with a flower filter")

	for _, link := range []netlink.Link{
		dummy("type0"),
		&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "type1", ParentIndex: index}, VlanId: 5},
		&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "type2"}, VxlanId: 7, Port: 4789},
		&netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: "type3"}},
	} {
		must(netlink.LinkAdd(link), link.Type())
	}
	links, err := netlink.LinkList()
	must(err, "list")
	for _, link := range links {
		switch link := link.(type) {
		case *netlink.Vlan:
			fmt.Println(link.Name, link.Type(), link.VlanId, link.ParentIndex == index)
		case *netlink.Vxlan:
			fmt.Println(link.Name, link.Type(), link.VxlanId, link.Port)
		default:
			fmt.Printf("%s %s %T\n", link.Attrs().Name, link.Type(), link)
		}
	}

	// The last notification of the subscription is the move of peer0 away.
	for deadline := time.After(10 * time.Second); ; {
		select {
		case update := <-updates:
			if update.Header.Type == syscall.RTM_DELLINK && update.Attrs().Name == "peer0" {
				fmt.Println("told by the subscription")
				close(done)
				return
			}
		case <-deadline:
			must(errors.New("nothing came"), "subscription")
		}
	}
}
