// SPDX-License-Identifier: Apache-2.0 OR MIT

// Tests vishvananda/netlink and netns: links, a subscription, namespaces of locked threads.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func identify() string {
	out, err := exec.Command("ip", "netns", "identify").CombinedOutput()
	check(err)
	return strings.TrimSpace(string(out))
}

func main() {
	updates, done := make(chan netlink.LinkUpdate, 16), make(chan struct{})
	check(netlink.LinkSubscribe(updates, done))
	check(netlink.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "go0"}}))
	fmt.Println("event", (<-updates).Attrs().Name)
	link, err := netlink.LinkByName("go0")
	check(err)
	check(netlink.LinkSetMTU(link, 1300))
	links, err := netlink.LinkList()
	check(err)
	fmt.Println("links", len(links), "mtu", links[1].Attrs().MTU)
	var group sync.WaitGroup
	for _, name := range []string{"g0", "g1", "g2", "g3"} {
		check(exec.Command("ip", "netns", "add", name).Run())
		name := name // one for each goroutine
		group.Add(1)
		go func() {
			defer group.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			before, err := netns.Get()
			check(err)
			handle, err := netns.GetFromName(name)
			check(err)
			for i := 0; i < 5; i++ {
				check(netns.Set(handle))
				if is := identify(); is != name {
					fmt.Println("in", is, "not in", name)
				}
				links, err := netlink.LinkList()
				check(err)
				if len(links) != 1 {
					fmt.Println("links of another namespace")
				}
				check(netns.Set(before))
				if is := identify(); is != "" {
					fmt.Println("still in", is)
				}
			}
			at, err := netlink.NewHandleAt(handle)
			check(err)
			links, err := at.LinkList()
			check(err)
			if len(links) != 1 {
				fmt.Println("handle: links of another namespace")
			}
		}()
	}
	group.Wait()
	fmt.Println("done")
}
