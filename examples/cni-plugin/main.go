// SPDX-License-Identifier: Apache-2.0 OR MIT

// A small CNI plugin. It creates a veth pair between the host and a container, an address at each
// end, and the container's default route to the host. Its configuration:
//
//	{"cniVersion": "0.4.0", "name": "...", "type": "pair", "host": "10.7.0.1/24", "container": "10.7.0.2/24", "mtu": 1400}
//
// Nothing in it depends on Weir.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
)

type config struct {
	types.NetConf
	Host      string `json:"host"`
	Container string `json:"container"`
	MTU       int    `json:"mtu"`
}

func main() {
	skel.PluginMain(add, check, del, version.All, "pair: a veth pair with addresses")
}

// parse reads and validates a configuration.
func parse(data []byte) (config, *netlink.Addr, *netlink.Addr, error) {
	conf := config{MTU: 1500}
	if err := json.Unmarshal(data, &conf); err != nil {
		return conf, nil, nil, fmt.Errorf("configuration: %w", err)
	}
	host, err := netlink.ParseAddr(conf.Host)
	if err != nil {
		return conf, nil, nil, fmt.Errorf("host: %w", err)
	}
	container, err := netlink.ParseAddr(conf.Container)
	if err != nil {
		return conf, nil, nil, fmt.Errorf("container: %w", err)
	}
	return conf, host, container, nil
}

// hostName returns the name of the host's end of a container's pair.
func hostName(container string) string {
	return fmt.Sprintf("p%.12s", container)
}

// give assigns an address to a link and sets it up.
func give(link netlink.Link, address *netlink.Addr) error {
	if err := netlink.AddrAdd(link, address); err != nil {
		return fmt.Errorf("address %v: %w", address, err)
	}
	return netlink.LinkSetUp(link)
}

func add(args *skel.CmdArgs) error {
	conf, host, container, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	space, err := ns.GetNS(args.Netns)
	if err != nil {
		return err
	}
	defer space.Close()

	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = hostName(args.ContainerID), conf.MTU
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: args.IfName, PeerNamespace: netlink.NsFd(space.Fd())}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("pair: %w", err)
	}
	outside, err := netlink.LinkByName(attrs.Name)
	if err != nil {
		return err
	}
	if err := give(outside, host); err != nil {
		return err
	}
	var inside netlink.Link
	err = space.Do(func(ns.NetNS) error {
		if inside, err = netlink.LinkByName(args.IfName); err != nil {
			return err
		}
		if err := give(inside, container); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: inside.Attrs().Index, Gw: host.IP})
	})
	if err != nil {
		return err
	}
	one := 1
	result := &current.Result{
		CNIVersion: current.ImplementedSpecVersion,
		Interfaces: []*current.Interface{
			{Name: attrs.Name, Mac: outside.Attrs().HardwareAddr.String()},
			{Name: args.IfName, Mac: inside.Attrs().HardwareAddr.String(), Sandbox: args.Netns},
		},
		IPs: []*current.IPConfig{{Interface: &one, Address: *container.IPNet, Gateway: host.IP}},
	}
	return types.PrintResult(result, conf.CNIVersion)
}

// check returns an error for the first difference from the state that add created.
func check(args *skel.CmdArgs) error {
	_, host, container, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	space, err := ns.GetNS(args.Netns)
	if err != nil {
		return err
	}
	defer space.Close()
	return space.Do(func(ns.NetNS) error {
		link, err := netlink.LinkByName(args.IfName)
		if err != nil {
			return err
		}
		if link.Type() != "veth" {
			return fmt.Errorf("%s is a %s, not a veth", args.IfName, link.Type())
		}
		addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		if len(addresses) != 1 || !addresses[0].Equal(*container) {
			return fmt.Errorf("%s has %v, not %v", args.IfName, addresses, container)
		}
		routes, err := netlink.RouteGet(net.IPv4(192, 0, 2, 1))
		if err != nil {
			return fmt.Errorf("default route: %w", err)
		}
		if !routes[0].Gw.Equal(host.IP) {
			return fmt.Errorf("the default route is via %v, not %v", routes[0].Gw, host.IP)
		}
		return nil
	})
}

// del removes the pair. It is not an error if the pair is already gone.
func del(args *skel.CmdArgs) error {
	link, err := netlink.LinkByName(hostName(args.ContainerID))
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}
