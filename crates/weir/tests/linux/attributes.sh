# SPDX-License-Identifier: Apache-2.0 OR MIT
# The shape of every message the stack sends.
exec python3 "${0%.sh}.py"
