// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tests the C library's own netlink and ioctl clients, linked statically. cc -static ifaddrs.c
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>

int main(void)
{
	struct ifaddrs *list;
	struct if_nameindex *names = if_nameindex();
	char name[IF_NAMESIZE];
	int count = 0;
	if (getifaddrs(&list) || !names)
		return 1;
	for (struct ifaddrs *entry = list; entry; entry = entry->ifa_next)
		count++;
	printf("interfaces %d first %s index %u name %s\n", count, names->if_name,
	       if_nametoindex("lo"), if_indextoname(1, name));
	return 0;
}
