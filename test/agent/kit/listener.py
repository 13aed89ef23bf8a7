"""Does what the kubelet does with logind (pkg/kubelet/nodeshutdown): holds an inhibitor, prints the shutdown signals that it receives, and
releases it some time after one. Arguments: address of the bus, seconds."""

import os
import sys

import dbus
from dbus.mainloop.glib import DBusGMainLoop
from gi.repository import GLib

MANAGER = 'org.freedesktop.login1.Manager'

DBusGMainLoop(set_as_default=True)
bus = dbus.bus.BusConnection(sys.argv[1])
logind = bus.get_object('org.freedesktop.login1', '/org/freedesktop/login1', introspect=False)
limit = logind.Get(MANAGER, 'InhibitDelayMaxUSec', dbus_interface='org.freedesktop.DBus.Properties')
lock = logind.Inhibit('shutdown', 'kubelet', 'Kubelet needs time to handle node shutdown', 'delay', dbus_interface=MANAGER).take()
bus.add_match_string(f"type='signal',interface='{MANAGER}',member='PrepareForShutdown',path='/org/freedesktop/login1'")


def receive(_bus, message):
    if message.get_type() == 4 and message.get_member() == 'PrepareForShutdown':
        [active] = message.get_args_list()
        print(f'PrepareForShutdown {bool(active)}', flush=True)
        if active:
            GLib.timeout_add(int(float(sys.argv[2]) * 1000), release)
    return 1


def release():
    print('released', flush=True)
    os.close(lock)
    return False


bus.add_message_filter(receive)
print(f'started {limit}', flush=True)
GLib.MainLoop().run()
