// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tests libnl-3: a cache, a new link, a subscription. cc libnl.c -I/usr/include/libnl3 -lnl-3
// -lnl-route-3
#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <stdio.h>

static int seen(struct nl_msg *message, void *counter)
{
	(void)message;
	++*(int *)counter;
	return NL_OK;
}

int main(void)
{
	struct nl_sock *socket = nl_socket_alloc(), *listener = nl_socket_alloc();
	struct nl_cache *cache;
	int events = 0;
	if (nl_connect(socket, NETLINK_ROUTE) < 0 || nl_connect(listener, NETLINK_ROUTE) < 0)
		return 1;
	nl_socket_disable_seq_check(listener);
	nl_socket_modify_cb(listener, NL_CB_VALID, NL_CB_CUSTOM, seen, &events);
	if (nl_socket_add_memberships(listener, RTNLGRP_LINK, 0) < 0)
		return 2;
	if (rtnl_link_alloc_cache(socket, AF_UNSPEC, &cache) < 0)
		return 3;
	printf("links %d", nl_cache_nitems(cache));
	struct rtnl_link *link = rtnl_link_alloc();
	rtnl_link_set_name(link, "x0");
	rtnl_link_set_type(link, "dummy");
	printf(" add %s", nl_geterror(rtnl_link_add(socket, link, NLM_F_CREATE | NLM_F_EXCL)));
	printf(" again %s", nl_geterror(rtnl_link_add(socket, link, NLM_F_CREATE | NLM_F_EXCL)));
	nl_recvmsgs_default(listener);
	printf(" events %d\n", events);
	return 0;
}
