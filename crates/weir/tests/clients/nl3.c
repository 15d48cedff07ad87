// SPDX-License-Identifier: Apache-2.0 OR MIT
// A libnl-3 client: caches of links, addresses and routes; a veth pair, an address, a route; the
// text of an error; an event through a cache manager.
#include <linux/if.h>
#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int status, const char *what) {
    if (status < 0) {
        printf("%s: %s\n", what, nl_geterror(status));
        exit(1);
    }
}

static int events;

static void changed(struct nl_cache *cache, struct nl_object *object, int action, void *data) {
    (void)cache, (void)data;
    if (action == NL_ACT_NEW && !strcmp(rtnl_link_get_name((struct rtnl_link *)object), "late"))
        events++;
}

int main(void) {
    struct nl_sock *socket = nl_socket_alloc();
    check(nl_connect(socket, NETLINK_ROUTE), "connect");
    check(rtnl_link_veth_add(socket, "left", "right", getpid()), "veth");

    struct nl_cache *links;
    check(rtnl_link_alloc_cache(socket, AF_UNSPEC, &links), "links");
    struct rtnl_link *left = rtnl_link_get_by_name(links, "left");
    if (!left || !rtnl_link_is_veth(left)) {
        printf("left is no veth\n");
        return 1;
    }
    struct rtnl_link *wanted = rtnl_link_alloc();
    rtnl_link_set_flags(wanted, IFF_UP);
    check(rtnl_link_change(socket, left, wanted, 0), "up");

    struct rtnl_addr *address = rtnl_addr_alloc();
    struct nl_addr *local;
    check(nl_addr_parse("192.0.2.1/24", AF_INET, &local), "parse");
    rtnl_addr_set_local(address, local);
    rtnl_addr_set_ifindex(address, rtnl_link_get_ifindex(left));
    check(rtnl_addr_add(socket, address, 0), "address");
    int again = rtnl_addr_add(socket, address, NLM_F_EXCL);
    printf("address again: %s\n", nl_geterror(again));
    if (again != -NLE_EXIST)
        return 1;

    struct rtnl_route *route = rtnl_route_alloc();
    struct rtnl_nexthop *hop = rtnl_route_nh_alloc();
    struct nl_addr *destination, *gateway;
    check(nl_addr_parse("198.51.100.0/24", AF_INET, &destination), "parse");
    check(nl_addr_parse("192.0.2.7", AF_INET, &gateway), "parse");
    rtnl_route_set_dst(route, destination);
    rtnl_route_nh_set_gateway(hop, gateway);
    rtnl_route_nh_set_ifindex(hop, rtnl_link_get_ifindex(left));
    rtnl_route_add_nexthop(route, hop);
    check(rtnl_route_add(socket, route, NLM_F_CREATE), "route");

    struct nl_cache *addresses, *routes;
    check(rtnl_addr_alloc_cache(socket, &addresses), "addresses");
    check(rtnl_route_alloc_cache(socket, AF_INET, 0, &routes), "routes");
    printf("links %d, IPv4 routes %d\n", nl_cache_nitems(links), nl_cache_nitems(routes));
    if (nl_cache_nitems(links) != 3 || nl_cache_nitems(addresses) < 1)
        return 1;

    struct nl_cache_mngr *manager;
    struct nl_cache *watched;
    check(nl_cache_mngr_alloc(NULL, NETLINK_ROUTE, NL_AUTO_PROVIDE, &manager), "manager");
    check(nl_cache_mngr_add(manager, "route/link", changed, NULL, &watched), "watch");
    struct rtnl_link *late = rtnl_link_alloc();
    rtnl_link_set_name(late, "late");
    rtnl_link_set_type(late, "dummy");
    check(rtnl_link_add(socket, late, NLM_F_CREATE | NLM_F_EXCL), "late");
    check(nl_cache_mngr_poll(manager, 5000), "poll");
    printf("events %d\n", events);

    struct rtnl_link *gone = rtnl_link_alloc();
    rtnl_link_set_name(gone, "nosuch");
    int missing = rtnl_link_delete(socket, gone);
    printf("delete of none: %s\n", nl_geterror(missing));
    return events == 1 && (missing == -NLE_NODEV || missing == -NLE_OBJ_NOTFOUND) ? 0 : 1;
}
