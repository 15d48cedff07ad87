python3 "$here/../clients/wire.py"
