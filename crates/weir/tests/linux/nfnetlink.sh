# SPDX-License-Identifier: Apache-2.0 OR MIT
# What malformed requests to connection tracking are answered.
# Linux keeps labels where something may set them, as `ct` may.
tc actions add action ct clear index 1
tc actions del action ct index 1
exec python3 "${0%.sh}.py"
