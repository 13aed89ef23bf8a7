"""A template of python3-dbusmock: logind as the template `logind` mocks it, but with the delays of shutdowns.

As in systemd (src/login/logind-dbus.c): after PrepareForShutdown it waits until nothing delays the shutdown, but no longer than
InhibitDelayMaxUSec; during a shutdown it grants no inhibitor that would delay it; and ListInhibitors tells who the inhibitors are.
"""

import os

import dbus
from dbusmock import MOCK_IFACE
from gi.repository import GLib

BUS_NAME = 'org.freedesktop.login1'
MAIN_OBJ = '/org/freedesktop/login1'
MAIN_IFACE = 'org.freedesktop.login1.Manager'
SYSTEM_BUS = True


def load(mock, parameters):
    mock.inhibitors = {}
    mock.timer = 0
    mock.AddProperties(MAIN_IFACE, dbus.Dictionary({
        'PreparingForShutdown': dbus.Boolean(parameters.get('PreparingForShutdown', False)),
        'InhibitDelayMaxUSec': dbus.UInt64(parameters.get('InhibitDelayMaxUSec', 5000000)),
    }, signature='sv'))
    mock.AddProperties(MOCK_IFACE, dbus.Dictionary({'PoweredOff': dbus.String('')}, signature='sv'))


@dbus.service.method(MAIN_IFACE, in_signature='ssss', out_signature='h', sender_keyword='sender', connection_keyword='connection')
def Inhibit(self, what, who, why, mode, sender=None, connection=None):
    if self.props[MAIN_IFACE]['PreparingForShutdown']:
        raise dbus.exceptions.DBusException(
            'The operation inhibition has been requested for is already running',
            name='org.freedesktop.login1.OperationInProgress')
    bus = connection.get_object('org.freedesktop.DBus', '/org/freedesktop/DBus', introspect=False)
    uid = bus.GetConnectionUnixUser(sender, dbus_interface='org.freedesktop.DBus')
    pid = bus.GetConnectionUnixProcessID(sender, dbus_interface='org.freedesktop.DBus')
    read_end, write_end = os.pipe()
    self.inhibitors[read_end] = (what, who, why, mode, dbus.UInt32(uid), dbus.UInt32(pid))

    def dropped(descriptor, _condition):
        os.close(descriptor)
        del self.inhibitors[descriptor]
        power_off_if_free(self)
        return False

    GLib.unix_fd_add_full(GLib.PRIORITY_HIGH, read_end, GLib.IO_HUP, dropped)
    GLib.idle_add(os.close, write_end)
    return dbus.types.UnixFd(write_end)


@dbus.service.method(MAIN_IFACE, in_signature='', out_signature='a(ssssuu)')
def ListInhibitors(self):
    return dbus.Array(self.inhibitors.values(), signature='(ssssuu)')


@dbus.service.method(MAIN_IFACE, in_signature='b', out_signature='')
def PowerOff(self, _interactive):
    self.UpdateProperties(MAIN_IFACE, {'PreparingForShutdown': dbus.Boolean(True)})
    self.EmitSignal(MAIN_IFACE, 'PrepareForShutdown', 'b', [True])
    limit = int(self.props[MAIN_IFACE]['InhibitDelayMaxUSec']) // 1000
    self.timer = GLib.timeout_add(limit, power_off, self, 'InhibitDelayMax')
    power_off_if_free(self)


@dbus.service.method(MOCK_IFACE, in_signature='', out_signature='')
def CancelShutdown(self):
    stop_timer(self)
    self.UpdateProperties(MAIN_IFACE, {'PreparingForShutdown': dbus.Boolean(False)})
    self.EmitSignal(MAIN_IFACE, 'PrepareForShutdown', 'b', [False])


def power_off_if_free(mock):
    if mock.timer and not any(mode == 'delay' for _, _, _, mode, _, _ in mock.inhibitors.values()):
        power_off(mock, 'NothingDelays')


def power_off(mock, because):
    stop_timer(mock)
    mock.UpdateProperties(MOCK_IFACE, {'PoweredOff': dbus.String(because)})
    return False


def stop_timer(mock):
    if mock.timer:
        GLib.source_remove(mock.timer)
    mock.timer = 0
