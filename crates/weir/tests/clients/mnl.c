// SPDX-License-Identifier: Apache-2.0 OR MIT
// A libmnl client: creates a link, parses a dump attribute by attribute, gets an error with its
// extended acknowledgement, and receives a notification. Prints one line for each. The exit status
// is 1 if anything differs from Linux.
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char buffer[32768];
static unsigned sequence = 100;

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static struct nlmsghdr *request(int type, int flags) {
    struct nlmsghdr *header = mnl_nlmsg_put_header(buffer);
    header->nlmsg_type = type;
    header->nlmsg_flags = NLM_F_REQUEST | flags;
    header->nlmsg_seq = ++sequence;
    return header;
}

static int talk(struct mnl_socket *socket, struct nlmsghdr *header, mnl_cb_t callback, void *data) {
    if (mnl_socket_sendto(socket, header, header->nlmsg_len) < 0)
        fail("send");
    for (;;) {
        int length = mnl_socket_recvfrom(socket, buffer, sizeof buffer);
        if (length < 0)
            fail("receive");
        int state = mnl_cb_run(buffer, length, sequence, mnl_socket_get_portid(socket), callback, data);
        if (state <= 0)
            return state;
    }
}

static int attribute(const struct nlattr *attribute, void *data) {
    const struct nlattr **table = data;
    if (mnl_attr_type_valid(attribute, IFLA_MAX) < 0)
        return MNL_CB_OK;
    table[mnl_attr_get_type(attribute)] = attribute;
    return MNL_CB_OK;
}

static int link_seen(const struct nlmsghdr *header, void *data) {
    const struct nlattr *table[IFLA_MAX + 1] = {0};
    const struct ifinfomsg *link = mnl_nlmsg_get_payload(header);
    mnl_attr_parse(header, sizeof *link, attribute, table);
    if (!table[IFLA_IFNAME] || !table[IFLA_MTU])
        fail("a link without name or mtu");
    printf("link %d %s mtu %u\n", link->ifi_index, mnl_attr_get_str(table[IFLA_IFNAME]),
           mnl_attr_get_u32(table[IFLA_MTU]));
    (*(int *)data)++;
    return MNL_CB_OK;
}

static struct nlmsghdr *new_dummy(const char *name) {
    struct nlmsghdr *header = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK);
    struct ifinfomsg *link = mnl_nlmsg_put_extra_header(header, sizeof *link);
    link->ifi_family = AF_UNSPEC;
    mnl_attr_put_strz(header, IFLA_IFNAME, name);
    mnl_attr_put_u32(header, IFLA_MTU, 1234);
    struct nlattr *info = mnl_attr_nest_start(header, IFLA_LINKINFO);
    mnl_attr_put_strz(header, IFLA_INFO_KIND, "dummy");
    mnl_attr_nest_end(header, info);
    return header;
}

int main(void) {
    struct mnl_socket *listener = mnl_socket_open(NETLINK_ROUTE);
    if (!listener || mnl_socket_bind(listener, RTMGRP_LINK, MNL_SOCKET_AUTOPID) < 0)
        fail("listener");
    struct mnl_socket *socket = mnl_socket_open(NETLINK_ROUTE);
    if (!socket || mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0)
        fail("socket");
    if (mnl_socket_get_portid(socket) == mnl_socket_get_portid(listener))
        fail("two sockets of one port id");
    int yes = 1;
    if (mnl_socket_setsockopt(socket, NETLINK_EXT_ACK, &yes, sizeof yes) < 0)
        fail("NETLINK_EXT_ACK");

    if (talk(socket, new_dummy("mnl0"), NULL, NULL) < 0)
        fail("mnl0");
    if (talk(socket, new_dummy("mnl0"), NULL, NULL) == 0 || errno != EEXIST)
        fail("mnl0 made twice");
    printf("made once: %s\n", strerror(errno));

    int seen = 0;
    struct nlmsghdr *header = request(RTM_GETLINK, NLM_F_DUMP);
    struct rtgenmsg *general = mnl_nlmsg_put_extra_header(header, sizeof *general);
    general->rtgen_family = AF_UNSPEC;
    if (talk(socket, header, link_seen, &seen) < 0 || seen != 2)
        fail("dump");

    header = request(RTM_DELLINK, NLM_F_ACK);
    struct ifinfomsg *link = mnl_nlmsg_put_extra_header(header, sizeof *link);
    link->ifi_index = 99;
    if (talk(socket, header, NULL, NULL) == 0 || errno != ENODEV)
        fail("delete of link 99");

    header = request(9999, NLM_F_ACK);
    mnl_nlmsg_put_extra_header(header, sizeof *general);
    if (talk(socket, header, NULL, NULL) == 0 || errno != EOPNOTSUPP)
        fail("unknown type");
    printf("unknown type: %s\n", strerror(errno));

    int length = mnl_socket_recvfrom(listener, buffer, sizeof buffer);
    header = (struct nlmsghdr *)buffer;
    if (length <= 0 || header->nlmsg_type != RTM_NEWLINK)
        fail("notification");
    printf("notified\n");
    mnl_socket_close(socket);
    mnl_socket_close(listener);
    return 0;
}
