// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tests libmnl: port id, a dump, an error with its errno. cc libmnl.c -lmnl
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int count(const struct nlmsghdr *message, void *counter)
{
	(void)message;
	++*(int *)counter;
	return MNL_CB_OK;
}

int main(void)
{
	char buffer[16384];
	struct mnl_socket *socket = mnl_socket_open(NETLINK_ROUTE);
	if (!socket || mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0)
		return 1;
	printf("port %s", mnl_socket_get_portid(socket) == (unsigned)getpid() ? "pid" : "other");

	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	message->nlmsg_type = RTM_GETLINK;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	message->nlmsg_seq = 1;
	mnl_nlmsg_put_extra_header(message, sizeof(struct ifinfomsg));
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		return 2;
	int links = 0, result = 1;
	while (result > 0) {
		ssize_t length = mnl_socket_recvfrom(socket, buffer, sizeof buffer);
		if (length < 0)
			return 3;
		result = mnl_cb_run(buffer, length, 1, mnl_socket_get_portid(socket), count, &links);
	}
	printf(" links %d result %d", links, result);

	message = mnl_nlmsg_put_header(buffer);
	message->nlmsg_type = RTM_DELLINK;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	message->nlmsg_seq = 2;
	struct ifinfomsg *link = mnl_nlmsg_put_extra_header(message, sizeof *link);
	link->ifi_index = 4711;
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		return 4;
	ssize_t length = mnl_socket_recvfrom(socket, buffer, sizeof buffer);
	result = mnl_cb_run(buffer, length, 2, mnl_socket_get_portid(socket), NULL, NULL);
	printf(" error %s\n", result < 0 ? strerror(errno) : "none");
	return 0;
}
