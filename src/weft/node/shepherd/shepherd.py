"""The first words of a shepherd: python -I -S shepherd.py FOLDER.

Of a script Python keeps no compiled form, so there is little here. Without site and the user's settings it starts in
half the time, and nothing in the environment or the working folder can get in its way.
"""

import sys

HERE = __file__.rpartition("/weft/node/")[0]


if __name__ == "__main__":
    sys.path.insert(0, HERE)
    from weft.node.shepherd.supervise import supervise

    supervise(sys.argv[1])
