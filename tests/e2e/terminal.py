"""A terminal for what the client prints for people."""
import fcntl
import os
import pty
import struct
import subprocess
import termios


def on_terminal(words, width, environment, keyboard=False, cwd=None):
    """What a terminal of this width gets from a program that ends well. keyboard: its input is the terminal, too."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    process = subprocess.Popen([*map(str, words)], env=environment, stdout=slave, stderr=slave, cwd=cwd,
                               stdin=slave if keyboard else subprocess.DEVNULL)
    os.close(slave)
    text = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:
            break
        if not more:
            break
        text += more
    os.close(master)
    assert process.wait(60) == 0, text
    return text.decode().replace("\r", "")
