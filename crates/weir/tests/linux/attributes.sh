# SPDX-License-Identifier: Apache-2.0 OR MIT
# The structure of every message that the stack sends.
exec python3 "${0%.sh}.py"
